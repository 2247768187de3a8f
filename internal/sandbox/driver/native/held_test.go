package native

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseMapping(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]*mapping{
		"7f00000-7f10000 rw-s 00001000 08:1f 42      /src/x (deleted)":            {0x7f00000, 0x7f10000, 0x1000, unix.Mkdev(8, 0x1f), 42},
		"7f00000-7f10000 r--p 00000000 00:2a 7       /src/a b (deleted)":          {0x7f00000, 0x7f10000, 0, unix.Mkdev(0, 0x2a), 7},
		"7f00000-7f10000 rw-s 00000000 08:01 42      /src/x":                      nil,
		"7f00000-7f10000 rw-p 00000000 00:00 0       [heap]":                      nil,
		"7f00000-7f10000 rw-s 00000000 08:01 0       /src/x (deleted)":            nil,
		"7f10000-7f00000 rw-s 00000000 08:01 1       /src/x (deleted)":            nil,
		"zz-7f10000 rw-s 00000000 08:01 1            /src/x (deleted)":            nil,
		"7f00000-7f10000 rw-s 00000000 0801 1        /src/x (deleted)":            nil,
		"7f00000-7f10000 rw-s 00000000 08:01 9999999999999999999999 /x (deleted)": nil,
		" (deleted)": nil,
		"":           nil,
	} {
		got, ok := parseMapping([]byte(line))
		if ok != (want != nil) || want != nil && got != *want {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
}

// TestHeldByNobody: a cell that is gone holds nothing, and a process that has
// its number now is not looked at.
func TestHeldByNobody(t *testing.T) {
	t.Parallel()
	for what, pid := range map[string]int{"no process": 1<<22 + 1, "another process": os.Getpid()} {
		if n, err := held(pid, 1, time.Time{}); n != 0 || err != nil {
			t.Errorf("%s: %d, %v", what, n, err)
		}
	}
}

package native

import (
	"os"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const fields = " S 7 1 1 0 -1 4194560 1 2 3 4 150 50 5 6 20 0 1 0 4711 8192 3"
	p, err := parseStat(9, []byte("9 (a) b) (c)"+fields))
	if err != nil {
		t.Fatal(err)
	}
	if p.parent != 7 || p.ticks != 4711 || p.CPU != 2*time.Second || p.RSS != 3*int64(os.Getpagesize()) || p.Args[0] != "[a) b) (c]" {
		t.Errorf("%+v", p)
	}
	for _, bad := range []string{"", "9", "9 (x", "9 (x)", ")(", "9 (x) S 1"} {
		if p, err := parseStat(9, []byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, p)
		}
	}
}

// TestFirstProcess: the cell's first process is listed, and its parent is outside.
func TestFirstProcess(t *testing.T) {
	f := newFixture(t, Options{})
	c := f.Start().(*Cell)
	list, err := c.Processes()
	if err != nil || len(list) != 1 || list[0].PID != 1 || list[0].PPID != 0 || list[0].HostPID != c.pid {
		t.Fatalf("%+v, %v", list, err)
	}
}

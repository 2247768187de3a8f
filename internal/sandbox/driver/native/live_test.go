package native

import (
	"context"
	"io"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
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

// TestLooksAgree: the kernel's lists of children show the same processes as a look at
// every process of the host, and no others.
func TestLooksAgree(t *testing.T) {
	f := newFixture(t, Options{})
	c := f.Start().(*Cell)
	said, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := c.Exec(ctx, driver.Command{Args: []string{"sh", "-c", "sleep 100 & sleep 100 & echo x; wait"}, Workdir: "/", Env: []string{"PATH=" + cellinit.DefaultPath}}, driver.Stdio{Out: out})
		_ = out.CloseWithError(err)
	}()
	defer func() { cancel(); <-ended }()
	if _, err := said.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = said.Close()
	none := func(int) bool { return false }
	lists, err := lookFrom(c.pid, none)
	if err != nil {
		t.Fatal(err)
	}
	all := sight{none, map[int]*seenProcess{}}
	if err := all.search(c.pid); err != nil {
		t.Fatal(err)
	}
	if len(lists) < 4 || !slices.Equal(slices.Sorted(maps.Keys(lists)), slices.Sorted(maps.Keys(all.stats))) {
		t.Errorf("lists of children show %v, all processes %v", slices.Sorted(maps.Keys(lists)), slices.Sorted(maps.Keys(all.stats)))
	}
	if beyond, err := lookFrom(c.pid, func(pid int) bool { return pid != c.pid }); err != nil || len(beyond) != 1 {
		t.Errorf("without what is below: %v, %v", beyond, err)
	}
}

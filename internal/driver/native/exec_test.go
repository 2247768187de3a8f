package native

import (
	"errors"
	"testing"

	"github.com/forkcell/forkcell/internal/driver"
)

// TestWarm runs one cell with a first process that waited for it and one
// without; one that nobody takes goes.
func TestWarm(t *testing.T) {
	f := newFixture(t, Options{})
	cool := f.native.Warm()
	f.native.Warm()() // there is one already
	pids := []int{}
	s := f.Spec
	s.Args = []string{"true"}
	s.Started = func(r driver.Record) error { pids = append(pids, recorded(t, r).PID); return nil }
	for range 2 {
		if o, err := f.Run(t.Context(), s, driver.Stdio{}); err != nil || o.Code != 0 {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	cool()
	if len(pids) != 2 || pids[0] == pids[1] {
		t.Errorf("first processes %v", pids)
	}
	f.native.Warm()()
}

// TestStartAgain: a cell whose network could not be served leaves nothing mounted
// that would keep another from being started on the same directories.
func TestStartAgain(t *testing.T) {
	f := newFixture(t, Options{})
	f.ClearWork()
	spec := f.Spec
	spec.Network = &driver.Network{Serve: func(c driver.Captured) (func(), error) {
		c.Close()
		return nil, errors.New("not today")
	}}
	if c, err := f.native.Start(t.Context(), spec); err == nil {
		t.Errorf("started: %v", c.Close())
	} else if start, ok := errors.AsType[*driver.StartError](err); !ok || start.Cause != driver.CauseNetwork {
		t.Errorf("%v", err)
	}
	if o, err := f.Start().Exec(t.Context(), f.Command("true"), driver.Stdio{}); err != nil || o.Code != 0 {
		t.Errorf("%+v, %v", o, err)
	}
}

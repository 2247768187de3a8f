package cell_test

import (
	"io"
	"os"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/caller"
)

// trigger closes a channel at the first byte that it is given.
type trigger struct {
	on   chan struct{}
	once sync.Once
}

func (t *trigger) Write(p []byte) (int, error) {
	t.once.Do(func() { close(t.on) })
	return len(p), nil
}

func pipe() (io.Reader, io.WriteCloser) { return io.Pipe() }

// started waits until a run in another goroutine has begun or failed.
func (w *world) started(begun <-chan struct{}, failed <-chan error) {
	w.Helper()
	select {
	case <-begun:
	case err := <-failed:
		w.Fatalf("the run ended early: %v", err)
	}
}

// settle does only what every changing verb does first.
func (w *world) settle(name string) error {
	_, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: name, Checkpoint: "head"})
	return err
}

// tester is the caller of the tests: the user of this process.
func tester() caller.Caller {
	dir, _ := os.Getwd()
	home, _ := os.UserHomeDir()
	return caller.Caller{Actor: func() string { return "tester" }, Dir: dir, Home: home, Env: os.Environ()}
}

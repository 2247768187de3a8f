package engine_test

import (
	"encoding/json"
	"io"
	"os"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/receipt"
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

// receiptLogs returns the stored streams that a receipt binds.
func (w *world) receiptLogs(id string) []receipt.Log {
	w.Helper()
	doc, err := w.e.Receipt(w.ctx, id, "", false)
	w.ok(err)
	var said struct {
		Receipt struct {
			Predicate struct {
				Logs []receipt.Log
			}
		}
	}
	w.ok(json.Unmarshal(doc.JSON, &said))
	return said.Receipt.Predicate.Logs
}

package main

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
)

// noticed is a context that tells when it is asked for its end for the first time.
type noticed struct {
	context.Context

	first func()
}

func (n noticed) Done() <-chan struct{} {
	n.first()
	return n.Context.Done()
}

// TestForcedBesideAStop: a forced operation on a cell that is being stopped waits for the
// end of that, which is not a change that the caller did not expect.
func TestForcedBesideAStop(t *testing.T) {
	t.Parallel()
	for name, force := range map[string]func(context.Context, *engine.Engine) error{
		"rm": func(ctx context.Context, e *engine.Engine) error { return e.Remove(ctx, "demo", true) },
		"restore": func(ctx context.Context, e *engine.Engine) error {
			_, err := e.Restore(ctx, api.RestoreRequest{Cell: "demo", Force: true})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, "")
			h.start()
			in, end := io.Pipe()
			out, ready := io.Pipe()
			var others sync.WaitGroup
			defer others.Wait()
			defer end.Close()
			others.Go(func() {
				_, err := h.e.Exec(h.Context(), shell("trap '' TERM; echo; read x"), engine.Stdio{In: in, Out: ready})
				_ = ready.CloseWithError(err)
			})
			if _, err := out.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			others.Go(func() {
				if _, err := h.e.Stop(h.Context(), api.StopRequest{Cell: "demo", Grace: time.Hour}); err != nil {
					t.Error(err)
				}
			})
			revision := h.awaitEnding()
			if err := h.e.Remove(h.Context(), "demo", false); api.CodeOf(err) != api.CodeBusy {
				t.Errorf("not forced: %v", err)
			}
			who := h.e.Caller
			who.Expect = &revision
			// The process ends when the forced operation has begun to wait.
			ctx := noticed{h.Context(), sync.OnceFunc(func() { _ = end.Close() })}
			h.ok(force(ctx, h.e.As(who)))
		})
	}
}

// awaitEnding waits until the cell is being stopped, and returns its revision.
func (h *home) awaitEnding() int64 {
	h.Helper()
	for ; ; <-time.After(10 * time.Millisecond) {
		status, err := h.e.Status(h.Context(), "demo")
		h.ok(err)
		if status.Live != nil && status.Live.Ending {
			return status.Revision
		}
	}
}

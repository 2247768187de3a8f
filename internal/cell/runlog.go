package cell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/store"
)

// RunLog writes the stored output of a run, of stderr or else of stdout. With follow
// it goes on until the run has ended. The output of a running run is readable in the
// process that carries it out, and that of a live cell everywhere. The first write is
// empty: there is such output.
func (e *Engine) RunLog(ctx context.Context, id string, stderr, follow bool, w io.Writer) error {
	if out := e.shared.outputs.find(id); out != nil {
		return out.copy(ctx, stderr, follow, w)
	}
	var r store.Run
	var c store.Cell
	err := e.view(func(tx *store.Tx) (err error) {
		if r, err = tx.Run(id); err == nil {
			c, err = tx.CellByID(r.CellID)
		}
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return api.Missing("run", id, "`forkcell log CELL` shows them")
	}
	if err != nil {
		return err
	}
	if r.State != "done" {
		return e.liveLog(ctx, c, id, stderr, follow, w)
	}
	digest := r.Stdout
	if stderr {
		digest = r.Stderr
	}
	f, err := e.openLog(digest)
	if err != nil {
		return err
	}
	_, _ = w.Write(nil)
	_, err = io.Copy(w, f)
	return errors.Join(err, f.Close())
}

// liveLog writes the output of a run that is under way in another process.
func (e *Engine) liveLog(ctx context.Context, c store.Cell, id string, stderr, follow bool, w io.Writer) error {
	out, errs := w, io.Discard
	if stderr {
		out, errs = errs, out
	}
	if info := e.liveInfo(ctx, c, false); info != nil && info.RunID == id {
		_, _ = w.Write(nil)
		_, err := e.FollowLogs(ctx, c.Name, id, follow, out, errs)
		return err
	}
	return &api.Error{
		Kind: api.Busy, Code: api.CodeBusy, Message: "another process carries out " + id, Hint: "its output can be read when it has ended",
	}
}

// runningOutputs are the outputs of runs that this process carries out.
type runningOutputs struct {
	mu   sync.Mutex
	runs map[string]*output
}

// add makes an output known until the returned function is called.
func (o *runningOutputs) add(run string, out *output) (remove func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.runs == nil {
		o.runs = map[string]*output{}
	}
	o.runs[run] = out
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.runs, run)
	}
}

func (o *runningOutputs) find(run string) *output {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.runs[run]
}

// tell wakes the readers. The caller holds the lock.
func (o *output) tell() {
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

// end tells the readers that nothing will be added. The caller holds the lock.
func (o *output) end() {
	o.ended = true
	o.tell()
}

// copy writes what is stored of a stream and, with follow, what is added to it.
func (o *output) copy(ctx context.Context, stderr, follow bool, w io.Writer) error {
	blob := o.blobs[0]
	if stderr {
		blob = o.blobs[1]
	}
	var f *os.File
	defer func() {
		if f != nil {
			_ = f.Close()
		}
	}()
	_, _ = w.Write(nil)
	for at := int64(0); ; {
		o.mu.Lock()
		size, ended, changed := blob.Size(), o.ended, o.awaitChange()
		var err error
		if f == nil && size > 0 {
			f, err = blob.Reader()
		}
		o.mu.Unlock()
		if err != nil {
			return fmt.Errorf("open the output: %w", err)
		}
		if f != nil {
			n, err := io.Copy(w, io.NewSectionReader(f, at, size-at))
			if at += n; err != nil {
				return err
			}
		}
		if ended || !follow {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitChange returns the channel that is closed at the next change. The caller holds
// the lock.
func (o *output) awaitChange() <-chan struct{} {
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.changed
}

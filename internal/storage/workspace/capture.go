package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Capture is a copy of what a generation holds at one moment, before it is sealed.
// It ends with Seal or Discard. After a crash before Seal there is nothing left of
// it but a pending directory, which Sweep removes.
type Capture struct {
	// w is a second generation on the same state. Its directories are the copies.
	w *Work
	// live is the manifest of a delta cell, which already has the live
	// directory.
	live *sealing
}

// Capture copies what the generation holds now. Nothing may write to it meanwhile:
// the caller has frozen the cell, and can thaw it when Capture returns. The
// generation is not touched, and is sealed later as if there had been no capture.
// The copy is neither durable nor hashed yet, except for the changed files in the
// live directory of a delta cell.
//
// With overlay the cost follows what changed since the generation began. An
// *UnsealableError lists what cannot be kept.
func (w *Work) Capture(ctx context.Context, op string) (*Capture, error) {
	p, err := w.s.newPending(op)
	if err != nil {
		return nil, err
	}
	c := &Capture{w: &Work{s: w.s, c: w.c, b: w.b, layer: w.layer, p: p, chain: w.chain, extra: w.extra, standIns: w.standIns}}
	err = w.b.capture(ctx, c, w)
	if err == nil {
		err = w.s.step("capture.copied")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("capture %s: %w", w.p.op, err), c.Discard())
	}
	return c, nil
}

// Seal makes the capture a state: a sibling of the one that the generation will
// become. The cell may be running. Seal ends the capture: when it fails, or finds
// that nothing had changed, nothing is left of it.
func (c *Capture) Seal(ctx context.Context) (Sealed, error) {
	sealed, _, err := c.SealIf(ctx, func(Sealed) bool { return true })
	return sealed, err
}

// SealIf is Seal for a caller who does not need every state. If wanted reports false
// for what the state would be, nothing is left of the capture. SealIf reports whether
// it made a layer.
func (c *Capture) SealIf(ctx context.Context, wanted func(Sealed) bool) (_ Sealed, made bool, _ error) {
	sealed, keep, err := c.hash(ctx)
	if err == nil {
		err = c.w.s.step("seal.hashed")
	}
	if err == nil && (sealed.Unchanged || !wanted(sealed)) {
		return sealed, false, c.Discard()
	}
	if err == nil {
		err = c.w.s.commitLayer(c.w.p, sealed, c.w.c.Backend, c.w.b.layerOn(c.w.chain).lower, keep)
	}
	if err != nil {
		return Sealed{}, false, errors.Join(fmt.Errorf("seal capture: %w", err), c.Discard())
	}
	c.w.p.close()
	return sealed, true, nil
}

func (c *Capture) hash(ctx context.Context) (Sealed, []string, error) {
	if c.live == nil {
		return c.w.hash(ctx)
	}
	defer c.live.pw.abort()
	c.live.ctx = ctx
	if err := c.live.copies(c.w.p.dir); err != nil {
		return Sealed{}, nil, err
	}
	return c.live.end()
}

// Discard removes the capture.
func (c *Capture) Discard() error {
	if c.live != nil {
		c.live.pw.abort()
	}
	return c.w.p.discard()
}

// Snapshot captures and seals, for a cell that stays frozen throughout.
func (w *Work) Snapshot(ctx context.Context, op string) (Sealed, error) {
	c, err := w.Capture(ctx, op)
	if err != nil {
		return Sealed{}, err
	}
	return c.Seal(ctx)
}

// ErrUnstable means that the files of a cell changed whenever they were copied.
var ErrUnstable = errors.New("the files change too often to be captured")

// stablePasses bounds how often CaptureStable copies.
const stablePasses = 3

// CaptureStable captures a generation that cannot be kept from changing meanwhile: it
// copies until two copies of the workspace agree. op returns the name of each copy.
func (w *Work) CaptureStable(ctx context.Context, op func() string) (*Capture, error) {
	var last *Capture
	var was *tree.AreaRoots
	for range stablePasses {
		c, now, err := w.captureOnce(ctx, op())
		if last != nil {
			err = errors.Join(err, last.Discard())
			last = nil
		}
		if err != nil {
			return nil, errors.Join(err, discarded(c))
		}
		if now != nil && was != nil && *now == *was {
			return c, nil
		}
		last, was = c, now
	}
	return nil, errors.Join(ErrUnstable, discarded(last))
}

func discarded(c *Capture) error {
	if c == nil {
		return nil
	}
	return c.Discard()
}

// captureOnce returns a copy and the identity of the workspace in it; neither if
// something changed so much that the copy failed.
func (w *Work) captureOnce(ctx context.Context, op string) (*Capture, *tree.AreaRoots, error) {
	c, err := w.Capture(ctx, op)
	if err != nil {
		return nil, nil, w.unlessChanging(ctx, err)
	}
	if c.live != nil {
		return c, nil, ErrUnstable // the copy of a live directory is hashed once
	}
	sealed, _, err := c.hash(ctx)
	if err != nil {
		return nil, nil, errors.Join(w.unlessChanging(ctx, err), c.Discard())
	}
	roots := sealed.Areas[AreaWorkspace]
	return c, &roots, nil
}

// unlessChanging returns an error that does not come from a file that changed while
// it was copied.
func (w *Work) unlessChanging(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*UnsealableError](err); ok || ctx.Err() != nil {
		return err
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, tree.ErrSize) {
		return nil
	}
	return err
}

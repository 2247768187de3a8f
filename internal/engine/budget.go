package engine

import (
	"context"
	"errors"

	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// inodeSpace is what a file counts besides its contents.
const inodeSpace = 4096

type budgetKey struct{}

// withBudget returns a context whose imports and unpacked archives stay within the
// caller's budget of disk space, until end is called. When the budget is used up, the
// context ends, and its cause says so.
func (e *Engine) withBudget(ctx context.Context) (within context.Context, end func(), err error) {
	ctx = e.WithProgress(ctx)
	if e.Caller.Budget == nil {
		return ctx, func() {}, nil
	}
	budget, err := e.Caller.Begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, budgetKey{}, budget))
	ctx = workspace.AlsoProgress(ctx, func(p workspace.Progress) {
		if p.What != workspace.ProgressImport {
			return
		}
		if err := budget.Use(p.Bytes + p.Files*inodeSpace); err != nil {
			cancel(err)
		}
	})
	return ctx, func() { cancel(nil); budget.Close() }, nil
}

// spend takes disk space out of the budget of a context, if it has one.
func spend(ctx context.Context, bytes int64) error {
	if b, ok := ctx.Value(budgetKey{}).(caller.Budget); ok {
		return b.Use(bytes)
	}
	return nil
}

// withinBudget returns the reason why a budget ended the work that failed, or else the
// failure.
func withinBudget(ctx context.Context, err error) error {
	if _, has := ctx.Value(budgetKey{}).(caller.Budget); !has || err == nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ctx.Err()) {
		return cause
	}
	return err
}

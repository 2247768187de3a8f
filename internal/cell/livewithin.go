package cell

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/supervise"
)

// DialWithin returns a client of a live cell whose policy is under the caller's
// ceiling: what the caller does there, the cell's policy allows.
func (e *Engine) DialWithin(ctx context.Context, name string) (*supervise.Client, error) {
	client, err := e.DialLive(ctx, name)
	if err != nil {
		return nil, err
	}
	ceiling, err := e.Caller.CeilingPolicy()
	if err != nil || ceiling == nil {
		return client, err
	}
	c, err := e.FindCell(name)
	if err != nil {
		return nil, err
	}
	runs, err := e.UnfinishedRuns(c)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		if r.Ceiling == ceiling.Digest() {
			continue // it was started under this ceiling, which holds until it ends
		}
		present, err := e.LastPolicy(r)
		if err != nil {
			return nil, err
		}
		if !policy.Within(present, ceiling) {
			return nil, api.Refusef(api.CodeCeiling, "stop the cell, and start it with your token",
				"cell %s is live with a policy that is not inside the ceiling of %s", name, e.Caller.Actor())
		}
	}
	return client, nil
}

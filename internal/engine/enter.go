package engine

import (
	"context"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// EnterLive returns a client of a live cell that the caller may enter. Everything that
// executes something in a live cell, or reads or writes its files, begins here or with
// EnterIfLive.
func (e *Engine) EnterLive(ctx context.Context, name string) (*supervise.Client, error) {
	client, err := e.DialLive(ctx, name)
	if err == nil && !e.entersAny() {
		var c store.Cell
		if c, err = e.FindCell(name); err == nil {
			err = e.mayEnter(c)
		}
	}
	if err != nil {
		return nil, err
	}
	return client, nil
}

// EnterIfLive finds a cell and, if it is live, its supervisor, for a caller who may enter
// it then. The client is nil if the cell is not live.
func (e *Engine) EnterIfLive(_ context.Context, name string) (*supervise.Client, store.Cell, error) {
	client, c, err := e.FindLive(name)
	if err == nil && client != nil && !e.entersAny() {
		if c, err = e.FindCell(name); err == nil {
			err = e.mayEnter(c)
		}
	}
	if err != nil {
		return nil, c, err
	}
	return client, c, nil
}

// entersAny reports whether the caller may enter every live cell.
func (e *Engine) entersAny() bool { return e.Caller.Ceiling == nil && e.Caller.MayGive == nil }

// mayEnter refuses a live cell that is more than the caller may have: one that was started
// with what the caller may not give, unless the caller started it, and one whose policy is
// not under the caller's ceiling. What the caller does there, the cell allows.
func (e *Engine) mayEnter(c store.Cell) error {
	ceiling, err := e.Caller.CeilingPolicy()
	if err != nil {
		return err
	}
	if err := e.openLate(); err != nil {
		return err
	}
	runs, err := e.UnfinishedRuns(c)
	if err != nil {
		return err
	}
	for _, r := range runs {
		present, err := e.LastPolicy(r)
		if err != nil {
			return err
		}
		if err := e.mayHave(c, r, present); err != nil {
			return err
		}
		// A cell that was started under this ceiling stays under it until it ends.
		if ceiling != nil && r.Ceiling != ceiling.Digest() && !policy.Within(present, ceiling) {
			return api.Refusef(api.CodeCeiling, "stop the cell, and start it with your token",
				"cell %s is live with a policy that is not inside the ceiling of %s", c.Name, e.Caller.Actor())
		}
	}
	return nil
}

// mayHave refuses a run that has what the caller may not give.
func (e *Engine) mayHave(c store.Cell, r store.Run, present *policy.Policy) error {
	if e.Caller.MayGive == nil || e.Caller.ID != "" && r.Starter == e.Caller.ID {
		return nil
	}
	var foreign []string
	for _, name := range r.Given {
		if !e.Caller.Gives(name) {
			foreign = append(foreign, name)
		}
	}
	for _, used := range present.Credentials {
		if !e.Caller.MayUseLine(used.Name) {
			foreign = append(foreign, "the credential "+used.Name)
		}
	}
	if !e.Caller.Gives("") && !e.Caller.CeilingGrants() {
		foreign = append(foreign, loosenedBy(present)...) // a ceiling that grants it is compared with the policy
	}
	if len(foreign) == 0 {
		return nil
	}
	return api.Refusef(api.CodeForbidden, "stop the cell, and start it without that",
		"cell %s is live with what %s may not give: %s", c.Name, e.Caller.Actor(), strings.Join(foreign, ", "))
}

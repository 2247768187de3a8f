package engine

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// Branch makes live cells with the memory and the files that a live cell has now, or a
// checkpoint has, all or none. If ctx ends first, none is left. The supervisor of the
// live cell is also theirs.
func (e *Engine) Branch(ctx context.Context, req api.BranchRequest) (*api.BranchResult, error) {
	return e.orderBranch(ctx, req, e.Caller.Expect, nil)
}

// orderBranch has the supervisor of a cell make branches, which may be those of a race.
func (e *Engine) orderBranch(ctx context.Context, req api.BranchRequest, expect *int64, race *supervise.RaceOrder) (*api.BranchResult, error) {
	if _, err := forkNames(api.ForkRequest{Name: branchNameOr(req.Name), N: req.N}); err != nil {
		return nil, err
	}
	if req.From != "" {
		return e.branchFrom(ctx, req, expect)
	}
	client, err := e.dialWarm(ctx, req.Cell)
	if err != nil {
		return nil, err
	}
	raw, err := e.branchValues(ctx, req)
	if err != nil {
		return nil, err
	}
	defer wipe(raw)
	// The secrets have been read; the supervisor cannot read their sources.
	req.Credentials, req.CredentialsFile = nil, ""
	return client.Branch(ctx, supervise.BranchOrder{
		ID: store.NewID("op"), Request: req, Actor: e.Caller.Actor(), Caller: e.Caller.ID, Bounded: e.isBounded(), RequestID: e.Caller.Request, Expect: expect, Race: race, Ceiling: e.Caller.Ceiling, Secrets: raw,
	})
}

// branchNameOr returns a name that can be checked before the cell is found.
func branchNameOr(name string) string {
	if name == "" {
		return "branch"
	}
	return name
}

// branchValues checks that the caller may branch the cell, and reads the credentials of
// branches that have a source. The others have the value of the branched cell.
func (e *Engine) branchValues(ctx context.Context, req api.BranchRequest) (map[string][]byte, error) {
	if err := e.openLate(); err != nil {
		return nil, err
	}
	c, err := e.FindCell(req.Cell)
	if err != nil {
		return nil, err
	}
	if err := e.mayBranch(c, req); err != nil {
		return nil, err
	}
	next, err := e.branchPolicy(c, req)
	if err != nil {
		return nil, err
	}
	held, err := e.heldCredentials(c, next)
	if err != nil {
		return nil, err
	}
	grant := api.NetworkRequest{Credentials: req.Credentials, CredentialsFile: req.CredentialsFile}
	values, err := e.readValues(ctx, next, networkRequest{NetworkRequest: grant}, held...)
	if err != nil {
		return nil, err
	}
	return values.HandOver(), nil
}

// branchPolicy returns the policy that a request has, or else the present one of the
// branched cell.
func (e *Engine) branchPolicy(c store.Cell, req api.BranchRequest) (*policy.Policy, error) {
	if req.Policy != nil {
		return e.Caller.ParsePolicy(*req.Policy)
	}
	runs, err := e.UnfinishedRuns(c)
	if err != nil || len(runs) == 0 {
		return policy.Default(), err
	}
	return e.LastPolicy(runs[len(runs)-1])
}

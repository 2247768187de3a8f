package engine

import (
	"fmt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// mayBranch refuses branches that the caller may not make: of a live directory, without
// the right to decide, and with a name that the caller could not see; and of a cell that
// does not have the revision that the caller expects.
func (e *Engine) mayBranch(c store.Cell, req api.BranchRequest) error {
	if err := e.CheckRevision(c); err != nil {
		return err
	}
	if err := e.MayMakeLike(c); err != nil {
		return err
	}
	// The supervisor takes the first free name. A later one has less of the cell's name.
	const late = 1_000_000
	if req.Name == "" && !e.Caller.MaySee(branchPrefix(c.Name, late)) {
		return api.Refusef(api.CodeForbidden, "give the new cells a name", "the name that branches of %s would get is not one that the caller may use", c.Name)
	}
	return nil
}

// branchNames returns the names of new cells. Without a name they are called after
// the branched cell.
func (e *Engine) branchNames(cell string, q api.BranchRequest) ([]string, error) {
	if q.Name != "" {
		return forkNames(api.ForkRequest{Name: q.Name, N: q.N})
	}
	for try := 1; ; try++ {
		names, err := forkNames(api.ForkRequest{Name: branchPrefix(cell, try), N: q.N})
		if err != nil {
			return nil, err
		}
		if taken, err := e.FirstTaken(names); err != nil || taken == "" {
			return names, err
		}
	}
}

// branchPrefix returns the name of a branch, or how it begins. It leaves room for a
// number.
func branchPrefix(cell string, try int) string {
	end := "-branch"
	if try > 1 {
		end += fmt.Sprint(try)
	}
	const most = 63 - len("-10000")
	return cell[:min(len(cell), most-len(end))] + end
}

package cell

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/supervise"
)

// Branch makes live cells with the memory and the files that a warm template has now,
// all or none. If ctx ends first, none is left. The supervisor of the template is also
// theirs.
func (e *Engine) Branch(ctx context.Context, req api.BranchRequest) (*api.BranchResult, error) {
	if _, err := forkNames(api.ForkRequest{Name: branchNameOr(req.Name), N: req.N}); err != nil {
		return nil, err
	}
	client, err := e.dialWithin(ctx, req.Cell)
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
		ID: store.NewID("op"), Request: req, Actor: e.caller.Actor(), Ceiling: e.caller.Ceiling, Secrets: raw,
	})
}

// branchNameOr returns a name that can be checked before the cell is found.
func branchNameOr(name string) string {
	if name == "" {
		return "branch"
	}
	return name
}

// branchValues reads the credentials of branches that have a source. The others have
// the value of the branched cell.
func (e *Engine) branchValues(ctx context.Context, req api.BranchRequest) (map[string][]byte, error) {
	if err := e.openLate(); err != nil {
		return nil, err
	}
	c, err := e.findCell(req.Cell)
	if err != nil {
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
		return e.caller.parsePolicy(*req.Policy)
	}
	runs, err := e.unfinishedRuns(c)
	if err != nil || len(runs) == 0 {
		return policy.Default(), err
	}
	return e.lastPolicy(runs[len(runs)-1])
}

// memoryOf returns the memory of a cell's processes, with their share of what they
// have together with others; where the host does not tell, all of it.
func memoryOf(c driver.Cell) (total int64) {
	list, err := c.Processes()
	if err != nil {
		return 0
	}
	for _, p := range list {
		if share, ok := proportional(p.HostPID); ok {
			total += share
		} else {
			total += p.RSS
		}
	}
	return total
}

// proportional returns the memory of a process, with its share of shared pages.
func proportional(pid int) (int64, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "Pss:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")), 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}

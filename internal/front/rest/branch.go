package rest

import (
	"context"
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine/inventory"
	"github.com/forkcell/forkcell/internal/engine/token"
	"github.com/forkcell/forkcell/internal/front/warm"
)

// addBranches adds the routes that branch a warm template, and run code in it and in
// branches.
func (s *Server) addBranches() {
	handle(s, op.Branch, s.branch)
	route(s, op.Eval)
	// The library has no way to say that an object can be null.
	schemas := s.api.OpenAPI().Components.Schemas
	schemas.SchemaFromRef(schemaOf[api.EvalResult](schemas).Ref).Properties["error"] = &huma.Schema{
		AnyOf: []*huma.Schema{schemaOf[api.EvalError](schemas), {Type: "null"}},
	}
}

func (s *Server) branch(ctx context.Context, c *call, in *moveInput[api.BranchBody]) (*api.BranchResult, error) {
	b := in.body()
	expect, err := expectation(in.Match)
	if err != nil {
		return nil, err
	}
	if b.Name != "" {
		if err := c.mayName(b.Name); err != nil {
			return nil, err
		}
	}
	set, err := s.runSettings(ctx, c, api.RunSettings{
		Policy: b.Policy, Timeout: b.Timeout, Memory: b.Memory, CPUs: b.CPUs, PIDs: b.PIDs, Credentials: b.Credentials,
	})
	if err != nil {
		return nil, err
	}
	o := set.options
	req := api.BranchRequest{
		Cell: in.Cell, Name: b.Name, N: b.N, From: b.From, Policy: o.Policy, Timeout: o.Timeout, Memory: o.Memory, CPUs: o.CPUs, PIDs: o.PIDs,
		Credentials: o.Network.Credentials, CredentialsFile: o.Network.CredentialsFile,
	}
	if req.Settings, err = cellSettings(b.CellSettings); err != nil {
		return nil, err
	}
	var saved *inventory.LiveCell
	if b.From != "" {
		if saved, err = savedCell(ctx, c, &req); err != nil {
			return nil, err
		}
	}
	end, err := s.roomToCapture(ctx, c)
	if err != nil {
		return nil, err
	}
	defer end()
	release, err := s.acquireBranch(ctx, c, req, saved)
	if err != nil {
		return nil, err
	}
	defer release()
	return s.actFor(c, expect, set.env).Branch(ctx, req)
}

// savedCell returns what branches of a checkpoint will use. From then on the request has
// the id of the checkpoint: a name could be given to another one meanwhile. What only an
// operator could give to the run that was saved ended with that run for other callers.
func savedCell(ctx context.Context, c *call, req *api.BranchRequest) (*inventory.LiveCell, error) {
	saved, err := c.engine.SavedCell(ctx, req.Cell, req.From)
	if err != nil {
		return nil, err
	}
	if len(saved.Loose) > 0 && !c.caller.isOperator() {
		return nil, api.Refusef(api.CodeForbidden, "save the memory of a cell that was started without it",
			"checkpoint %s was saved with %s, which only the operator may give it", saved.CheckpointID, strings.Join(saved.Loose, ", "))
	}
	req.From = saved.CheckpointID
	return &saved.LiveCell, nil
}

// acquireBranch takes the cells of a branch out of the quotas, except that of disk space. Each has the limits of
// the branched cell, which saved has if it is a checkpoint, or narrower ones. After the
// branch release is called: the cells themselves count as long as they are live.
func (s *Server) acquireBranch(ctx context.Context, c *call, req api.BranchRequest, saved *inventory.LiveCell) (release func(), err error) {
	s.starting.mu.Lock()
	defer s.starting.mu.Unlock()
	whole, own, source, err := s.live(ctx, c, req.Cell)
	if saved != nil {
		source = saved
	}
	if err != nil || source == nil {
		return func() {}, err // the engine refuses a cell that is not live
	}
	n := int64(max(1, req.N))
	each := token.Amount{LiveCells: 1, Memory: narrower(source.Memory, req.Memory), CPUs: narrower(source.CPUs, req.CPUs)}
	free, err := s.take(c, token.Amount{LiveCells: n, Memory: n * each.Memory, CPUs: n * each.CPUs}, whole, own)
	if err != nil {
		return nil, err
	}
	return s.starting.begin(branchNames(req), free), nil
}

// branchNames returns the names of the new cells. Without a name in the request the
// supervisor chooses them: until the request ends, those that are live count twice.
func branchNames(req api.BranchRequest) (names []string) {
	switch {
	case req.Name == "":
	case req.N == 0:
		names = []string{req.Name}
	default:
		for i := range req.N {
			names = append(names, fmt.Sprintf("%s-%d", req.Name, i+1))
		}
	}
	return names
}

// narrower returns the smaller one of two limits. 0 for none.
func narrower(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// warmRequest returns how a cell becomes a template; nil if it does not.
func warmRequest(ctx context.Context, c *call, in *moveInput[api.StartBody]) (req *api.WarmRequest, err error) {
	body := in.body()
	b := body.Warm
	switch {
	case b == nil:
		return req, nil
	case (len(b.Command) == 0) == (b.Python == nil):
		return nil, api.Usagef("send one of them", "warm needs either a command or python")
	case b.Python == nil:
		req = &api.WarmRequest{Args: b.Command, Input: api.Text(b.Stdin)}
		err = checkArgs(b.Command)
	case b.Stdin != "":
		return nil, api.Usagef("leave it out", "warm: stdin is for a command")
	default:
		req, err = warm.Python(*b.Python, body.Workdir, func() (string, error) {
			status, err := c.engine.Status(ctx, in.Cell)
			if err != nil {
				return "", err
			}
			return status.MountAt, nil
		})
	}
	if err != nil {
		return nil, err
	}
	req.Ready = b.Ready
	req.Timeout, err = duration("ready_timeout", b.ReadyTimeout)
	return req, err
}

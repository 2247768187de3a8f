package remote

import (
	"context"
	"net/http"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
)

// warmBody returns how a cell becomes a template as the API has it.
func warmBody(w api.WarmRequest) (*api.WarmBody, error) {
	return &api.WarmBody{Command: w.Args, Stdin: string(w.Input), Ready: w.Ready, ReadyTimeout: duration(w.Timeout)}, textOnly(w.Args)
}

// Branch makes live cells that begin with the memory of a live cell, or of a checkpoint.
// If ctx ends first, none is left.
func (e *Engine) Branch(ctx context.Context, r api.BranchRequest) (*api.BranchResult, error) {
	options := api.RunOptions{Policy: r.Policy, Timeout: r.Timeout, Memory: r.Memory, CPUs: r.CPUs, PIDs: r.PIDs}
	options.Network.Credentials = r.Credentials
	s, err := e.settings(ctx, options)
	if err != nil {
		return nil, err
	}
	body := client.Branch{
		Name: r.Name, N: r.N, From: r.From, Policy: s.Policy, Timeout: s.Timeout, Memory: s.Memory, CPUs: s.CPUs, PIDs: s.PIDs, Credentials: s.Credentials,
		CellSettings: settingsBody(r.Settings),
	}
	res := new(api.BranchResult)
	// Without a key of its own the request ends with its caller.
	if err := e.ask(ctx, http.MethodPost, op.Branch.At(r.Cell), body, res); err != nil {
		return nil, err
	}
	return res, nil
}

// Eval runs code in the warm interpreter of a live cell.
func (e *Engine) Eval(ctx context.Context, r api.EvalRequest) (*api.EvalResult, error) {
	return asEngineError(e.client.Cells.Named(r.Cell).Eval(ctx, r))
}

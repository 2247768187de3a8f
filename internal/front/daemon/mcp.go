package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/front/mcp"
	"github.com/forkcell/forkcell/internal/front/rest"
	"github.com/forkcell/forkcell/internal/session"
)

// MCP serves one cell to a language model until in ends. It has the REST API inside
// this process: there is no listener.
func MCP(ctx context.Context, home string, o api.MCPOptions, in io.Reader, out io.Writer) (err error) {
	if home == "" {
		if home, err = local.DefaultHome(); err != nil {
			return err
		}
	}
	actor := "mcp of " + userName(os.Geteuid())
	engine, release, err := local.Open(home, local.Write, caller.Caller{Actor: func() string { return actor }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	status, err := engine.Status(ctx, o.Cell)
	if err != nil {
		return err
	}
	var sources []string
	if o.AllowDecide && status.Source != "" {
		sources = append(sources, status.Source)
	}
	s := rest.New(rest.Config{
		AllowSource: sources, Agents: session.Host{Tools: os.Environ(), Closed: engine.WrittenDirs, Served: true},
		Engine: func(c caller.Caller) rest.Engine { return engine.As(c) }, Tokens: engine.Tokens(), UserName: userName, Version: local.Version(),
	})
	bound := rest.Bound{Name: actor, Cell: o.Cell, CellID: status.CellID, Decide: o.AllowDecide}
	if bound.Ceiling, err = policyOf(ctx, engine, o.Cell); err != nil {
		return err
	}
	client := s.BoundClient(bound)
	defer client.Wait() // a run that the end interrupts still gets its receipt
	session := mcp.Session{Client: client, Rights: mcp.Rights{Run: true, Decide: o.AllowDecide, Cell: o.Cell}}
	err = mcp.NewCatalog(local.Version()).Server(session, nil).Run(ctx, mcp.Stdio(in, out))
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		err = nil
	}
	return err
}

// policyOf returns the policy of a cell: the ceiling of those who are bound to it.
func policyOf(ctx context.Context, e *engine.Engine, name string) (*api.PolicyFile, error) {
	res, err := e.Policy(ctx, name)
	if err != nil {
		return nil, err
	}
	return &api.PolicyFile{Name: api.Text("the policy of cell " + name), Text: res.Text}, nil
}

// mountMCP serves the Model Context Protocol at /mcp. The sender of each request
// decides what its tools may do.
func mountMCP(s *rest.Server, log *slog.Logger) {
	s.Mount(op.MCP, mcp.NewCatalog(local.Version()).Handler(func(r *http.Request) mcp.Session {
		sender := s.SenderOf(r)
		return mcp.Session{ID: sender.ID, Client: sender.Client, Rights: mcp.Rights{
			Run: sender.May(rest.Run), Decide: sender.May(rest.Decide), Operator: sender.Operator, Credentials: true, Sessions: true,
		}}
	}, log))
}

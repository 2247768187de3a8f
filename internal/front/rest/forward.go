package rest

import (
	"context"
	"errors"
	"io"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execsocket"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
)

type forwardInput struct {
	InCell
	Port int `query:"port" required:"true" minimum:"1" maximum:"65535" doc:"Port on the loopback of the cell."`
}

// addForward adds the route of a connection to a port of a live cell, for programs:
// its bytes pass unchanged, so a browser must not reach it. Only a WebSocket with the
// subprotocol of commands does.
func (s *Server) addForward() {
	handleExchange(s, op.ForwardPort, map[string]*huma.Response{"101": {
		Description: "A WebSocket with the subprotocol " + execsocket.Protocol + ", as of a command that copies its input to the port and its output from there. The exit code is 1 if nothing listens there.",
	}}, func(ctx context.Context, x *exchange, in *forwardInput) {
		x.stream(ctx, func(ctx context.Context) {
			join, err := x.engine.Forward(ctx, in.Cell, in.Port)
			if err != nil {
				x.fail(err)
				return
			}
			serveExecSocket(ctx, x, true, func(ctx context.Context, stdio engine.Stdio) (*api.ExecResult, error) {
				stdio.Started("")
				return forwarded(join(ctx, portStreams{stdio.In, stdio.Out}))
			})
		})
	})
}

// portStreams are both directions of a connection.
type portStreams struct {
	io.Reader
	io.Writer
}

// forwarded returns the end of a connection as that of a command.
func forwarded(err error) (*api.ExecResult, error) {
	if errors.Is(err, engine.ErrNoListener) {
		return &api.ExecResult{ExitCode: 1}, nil
	}
	return &api.ExecResult{}, err
}

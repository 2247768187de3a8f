package remote

import (
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/coder/websocket"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Forward returns a function that connects a stream with a port of a live cell, by a
// socket for each connection.
func (e *Engine) Forward(ctx context.Context, name string, port int) (func(context.Context, io.ReadWriter) error, error) {
	if _, err := e.Sessions(ctx, name); err != nil {
		return nil, err
	}
	status, err := e.Status(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case status.Live != nil && status.Live.Template:
		return nil, api.TemplateError(name)
	}
	path := op.ForwardPort.At(name) + "?port=" + strconv.Itoa(port)
	return func(ctx context.Context, conn io.ReadWriter) error {
		sock, err := e.dial(ctx, path)
		if err != nil {
			return err
		}
		defer sock.close()
		m, err := sock.relay(ctx, engine.Stdio{In: conn, Out: conn}, nil)
		switch {
		case err != nil:
			return forwardError(name, err)
		case m.ExitCode != nil && *m.ExitCode != 0:
			return engine.ErrNoListener
		}
		return nil
	}, nil
}

// forwardError returns the error of a connection that the daemon has ended. Its reason
// is the code of the failure.
func forwardError(name string, err error) error {
	closed, ok := errors.AsType[websocket.CloseError](err)
	if !ok {
		return failure(err)
	}
	kind := api.Failed
	if closed.Code == websocket.StatusGoingAway {
		kind = api.Busy
	}
	return &api.Error{Kind: kind, Code: api.Code(closed.Reason), Message: "the daemon ended the connection to " + name + ": " + quote.Line(closed.Reason), Err: err}
}

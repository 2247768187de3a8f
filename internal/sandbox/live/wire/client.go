package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execwire"
)

// Client connects to one server. It holds no connection: each request has its
// own, so a client is safe for concurrent use and can be used after the server
// was restarted. The methods return an [*Error] or [*StartError] of the server,
// ErrNoServer, ErrLost, or the context's error.
type Client struct {
	path    string
	version string
}

// NewClient returns a client of the server at a path, which need not exist yet.
// version is the program's own, for messages.
func NewClient(path, version string) *Client { return &Client{path: path, version: version} }

// line is a connection after the exchange of hellos, on which a request was
// sent.
type line struct {
	*frameConn
	stop func() bool
}

func (l *line) close() {
	l.stop()
	_ = l.Close()
}

// open connects and sends a request. The connection is closed when ctx ends.
func (c *Client) open(ctx context.Context, r *request) (*line, error) {
	greeting := message(nil, kindHello, hello{Min: protocolMin, Max: protocolMax, Version: c.version})
	both, err := appendMessage(greeting, kindRequest, r)
	if err != nil {
		return nil, err
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	l := &line{frameConn: &frameConn{UnixConn: conn, in: newFrameReader(conn)}}
	l.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err := l.greet(both); err != nil {
		l.close()
		return nil, lostError(ctx, err)
	}
	return l, nil
}

func (c *Client) connect(ctx context.Context) (*net.UnixConn, error) {
	dir, name, err := openDir(c.path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoServer
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	conn, err := connect(ctx, dir, name)
	if err != nil {
		return nil, err
	}
	if err := checkPeer(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// checkPeer refuses a server of another user, which could read the input.
func checkPeer(conn *net.UnixConn) error {
	uid, err := peerUID(conn)
	if err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	if own := os.Geteuid(); uid != own && uid != 0 && own != 0 {
		return &api.Error{
			Kind: api.Refused, Code: api.CodeNotYours,
			Message: fmt.Sprintf("user %d listens at the cell's socket, not user %d", uid, own),
		}
	}
	return nil
}

// greet sends the hello and the request together, since there is one version
// and the request is the same in all of them, and reads the server's hello.
func (l *line) greet(both []byte) error {
	_, err := l.Write(both)
	// A server that refuses answers before it reads, and then this write may
	// fail; its answer can still be read.
	payload, readErr := l.answer(kindHello)
	if readErr != nil {
		return errors.Join(readErr, err)
	}
	var h hello
	if err := json.Unmarshal(payload, &h); err != nil {
		return protocolError("a hello cannot be understood: %v", err)
	}
	if h.Max < protocolMin || h.Max > protocolMax {
		return protocolError("the server chose version %d, which was not offered", h.Max)
	}
	return nil
}

// answer reads a frame of one kind, or the failure that was sent instead.
func (l *line) answer(want execwire.Kind) ([]byte, error) {
	k, payload, err := l.in.next()
	switch {
	case err != nil:
		return nil, err
	case k == execwire.Error:
		return nil, failure(payload)
	case k != want:
		return nil, protocolError("a frame of type %d where one of type %d is due", k, want)
	}
	return payload, nil
}

func failure(payload []byte) error {
	var w wireError
	if err := decode(payload, &w); err != nil {
		return err
	}
	return w.err()
}

// lostError returns the error for a connection that broke.
func lostError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, ok := errors.AsType[*api.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*StartError](err); ok {
		return err
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// ask sends a request and reads its one answer.
func (c *Client) ask(ctx context.Context, r *request, result any) error {
	l, err := c.open(ctx, r)
	if err != nil {
		return err
	}
	defer l.close()
	payload, err := l.answer(execwire.Result)
	if err != nil {
		return lostError(ctx, err)
	}
	return decode(payload, result)
}

// Call sends a request to the server's Host that this package does not
// interpret. The request must be JSON, or empty.
func (c *Client) Call(ctx context.Context, method string, req json.RawMessage) (json.RawMessage, error) {
	var r callResult
	err := c.ask(ctx, &request{Call: &callRequest{Method: method, Request: req}}, &r)
	return r.Result, err
}

// Sessions lists the running and the remembered commands, the oldest first.
func (c *Client) Sessions(ctx context.Context) ([]Session, error) {
	var r sessionsResult
	if err := c.ask(ctx, &request{Sessions: true}, &r); err != nil {
		return nil, err
	}
	out := make([]Session, len(r.Sessions))
	for i, m := range r.Sessions {
		out[i] = m.session()
	}
	return out, nil
}

// Processes lists the processes of the cell.
func (c *Client) Processes(ctx context.Context) ([]ProcessInfo, error) {
	var r processesResult
	if err := c.ask(ctx, &request{Processes: true}, &r); err != nil {
		return nil, err
	}
	out := make([]ProcessInfo, len(r.Processes))
	for i, m := range r.Processes {
		out[i] = m.process()
	}
	return out, nil
}

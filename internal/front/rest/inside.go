package rest

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/token"
)

// Client sends requests to a Server from inside its process, for one caller. A
// request passes the same places as one that came over a connection.
type Client struct {
	server *Server
	peer   peer
	// host and remote are those of the caller's own connection.
	host, remote string

	underWay sync.WaitGroup
}

// Bound describes a caller that is bound to one cell and to its lineage: forks of it, and
// what such callers made. It may run, and has no credentials.
type Bound struct {
	// Name is the actor in statements.
	Name string
	// Cell is the name of the cell, which begins the names of new cells, and CellID its id.
	Cell, CellID string
	// Decide lets the caller accept, reject and apply.
	Decide bool
	// Ceiling is a policy that must allow what the policy of a run allows.
	Ceiling *api.PolicyFile
}

// BoundClient returns the client of a caller that is bound to a cell.
func (s *Server) BoundClient(b Bound) *Client {
	grant := token.Grant{Name: b.Name, Scopes: []Scope{Run}, Ceiling: b.Ceiling}
	if b.Decide {
		grant.Scopes = append(grant.Scopes, Decide)
	}
	return &Client{server: s, host: "localhost", peer: peer{unix: true, boundID: b.CellID, bound: &sender{name: b.Name, only: b.Cell, grant: grant}}}
}

// Do sends a request. Closing the body of the answer ends a request that is still
// under way, as a closed connection would.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	inside := c.peer
	inside.inside = true
	ctx, cancel := context.WithCancel(context.WithValue(req.Context(), peerKey, inside))
	r := req.Clone(ctx)
	r.Host, r.RemoteAddr, r.RequestURI = c.host, c.remote, req.URL.RequestURI()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	body, w := io.Pipe()
	answer := &insideWriter{header: http.Header{}, body: w, begun: make(chan struct{})}
	c.underWay.Go(func() {
		defer cancel()
		answer.finish(serve(c.server.Handler(), answer, r))
	})
	<-answer.begun
	return &http.Response{
		Status: http.StatusText(answer.status), StatusCode: answer.status, Header: answer.sent, ContentLength: -1,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req, Body: insideBody{body, cancel},
	}, nil
}

// Wait returns when no request is under way.
func (c *Client) Wait() { c.underWay.Wait() }

// serve calls a handler. A handler that gives up its answer panics.
func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			err = io.ErrUnexpectedEOF
		default:
			panic(v)
		}
	}()
	h.ServeHTTP(w, r)
	return nil
}

// insideBody is the body of an answer.
type insideBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b insideBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// insideWriter writes an answer to a pipe.
type insideWriter struct {
	header http.Header
	body   *io.PipeWriter

	once   sync.Once
	begun  chan struct{} // closed when status and sent are set
	status int
	sent   http.Header
}

func (w *insideWriter) Header() http.Header { return w.header }

func (w *insideWriter) WriteHeader(status int) {
	if status < http.StatusOK {
		return // it only announces the answer
	}
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

func (w *insideWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Flush begins the answer: what is written reaches the reader at once.
func (w *insideWriter) Flush() { w.WriteHeader(http.StatusOK) }

func (w *insideWriter) finish(err error) {
	w.WriteHeader(http.StatusOK)
	_ = w.body.CloseWithError(err) // it never fails
}

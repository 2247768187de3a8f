package rest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// arrivalLimit is how long a daemon that stops waits for the first requests of connections
// that it has accepted already.
const arrivalLimit = time.Second

// arrivals are connections of inherited listeners that were accepted and whose first request
// has not been counted yet. An http.Server that is shut down drops such a request without
// an answer, so they are waited for.
type arrivals struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	none  chan struct{} // closed when none is left; nil without a waiter
}

// expect adds a connection until its first request has come, or it has been closed.
func (a *arrivals) expect(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conns == nil {
		a.conns = map[net.Conn]struct{}{}
	}
	a.conns[conn] = struct{}{}
}

func (a *arrivals) came(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, conn)
	if a.none != nil && len(a.conns) == 0 {
		close(a.none)
		a.none = nil
	}
}

// wait returns when no connection is expected to send its first request, or its time is up.
func (a *arrivals) wait() {
	none := make(chan struct{})
	a.mu.Lock()
	if len(a.conns) == 0 {
		close(none)
	} else {
		a.none = none
	}
	a.mu.Unlock()
	waitAtMost(none, arrivalLimit, arrivalLimit)
}

// expected is the key of the connection of a request that came by an inherited listener.
type expected struct{}

// baseContext marks what comes by an inherited listener, and connContext its connections.
func (s *Server) baseContext(l net.Listener) context.Context {
	_, inherited := l.(InheritedListener)
	return context.WithValue(context.Background(), expected{}, inherited)
}

func (s *Server) connContext(ctx context.Context, conn net.Conn) context.Context {
	if inherited, _ := ctx.Value(expected{}).(bool); inherited {
		s.arrivals.expect(conn)
		ctx = context.WithValue(ctx, expected{}, conn)
	}
	return s.identify(ctx, conn)
}

// connState notices connections that end.
func (s *Server) connState(conn net.Conn, state http.ConnState) {
	if state == http.StateClosed {
		s.arrivals.came(conn)
	}
}

// arrived is called when a request has been counted.
func (s *Server) arrived(r *http.Request) {
	if conn, ok := r.Context().Value(expected{}).(net.Conn); ok {
		s.arrivals.came(conn)
	}
}

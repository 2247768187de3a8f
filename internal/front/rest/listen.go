package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
)

const maxHeader = 64 << 10

// peer is the other side of a connection.
type peer struct {
	// unix reports a connection over a local socket, local one of the daemon's own
	// user or of root.
	unix, local bool
	name        string
	addr        netip.Addr
	// inside reports a request from inside this process.
	inside bool
	// bound is a caller inside this process; nil for all others.
	bound *sender
	// boundID is the id of its cell.
	boundID string
}

// Serve answers requests on the listeners until ctx ends. Then it refuses new ones, and
// waits for those that are being answered.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	srv := &http.Server{
		Handler: s.Handler(), MaxHeaderBytes: maxHeader, ReadHeaderTimeout: bodyTimeout, IdleTimeout: 2 * time.Minute,
		BaseContext: s.baseContext, ConnContext: s.connContext, ConnState: s.connState, ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
	s.jobs.all.Go(s.expireUploads)
	failed := make(chan error, 1) // the first one ends the server
	var own, inherited sync.WaitGroup
	serve := func(l net.Listener) {
		serving := &own
		if _, ok := l.(InheritedListener); ok {
			serving = &inherited
		}
		serving.Go(func() {
			ended := srv.Serve(l)
			select {
			case failed <- ended:
			default:
			}
		})
	}
	for _, l := range listeners {
		serve(l)
	}
	// A listener that is closed later would remove the socket of the next daemon.
	defer own.Wait()
	err := s.untilEnd(ctx, failed, serve)
	err = errors.Join(err, closeInherited(listeners))
	inherited.Wait()
	s.arrivals.wait()
	return errors.Join(err, s.end(srv))
}

// untilEnd serves listeners that are added, until ctx ends or a listener fails.
func (s *Server) untilEnd(ctx context.Context, failed <-chan error, serve func(net.Listener)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case l := <-s.extra:
			serve(l)
		}
	}
}

// AddListener serves another listener. It is closed when the server stops.
func (s *Server) AddListener(l net.Listener) {
	select {
	case s.extra <- l:
	case <-s.open.Done():
		_ = l.Close() // the server stops
	}
}

// Handler returns the handler of all requests.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = s.traces.begin(r)
		s.receive(w, r)
		c, err := s.newCall(r)
		seen := &observedAnswer{ResponseWriter: w}
		defer s.observe(seen, r, c, time.Now())
		defer func() { s.answerPanic(seen, c, recover()) }()
		seen.Header().Set("X-Request-Id", c.id)
		release := func() {}
		if err == nil {
			release, err = s.admitRequest(seen, r)
		}
		s.arrived(r)
		if err != nil {
			writeProblem(seen, s.problemOf(c, err))
			return
		}
		defer release()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.work, cancel)()
		valid, revoke := context.WithCancel(context.Background())
		defer revoke()
		defer context.AfterFunc(valid, cancel)()
		defer s.watch(c, revoke)()
		c.valid = valid
		r = r.WithContext(context.WithValue(ctx, callKey, c))
		if isKeyed(r) && c.caller.name != "" {
			s.carryOutOnce(seen, r, c)
		} else {
			s.dispatch(seen, r)
		}
	})
}

// answerPanic answers a request whose handler has failed with a panic v; nil for none. An
// answer that has begun is cut off.
func (s *Server) answerPanic(w *observedAnswer, c *call, v any) {
	switch v {
	case nil:
		return
	case http.ErrAbortHandler:
		panic(v)
	}
	s.logger.Error("request failed", "request", c.id, "panic", v, "stack", string(debug.Stack()))
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	writeProblem(w, failedProblem(c))
}

// identify finds out who is at the other end of a connection.
func (s *Server) identify(ctx context.Context, conn net.Conn) context.Context {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		from, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
		return context.WithValue(ctx, peerKey, peer{addr: from.Addr()})
	}
	p := peer{unix: true}
	// Without a known peer every route that needs a right is refused.
	if uid, err := peerUID(unixConn); err == nil && (uid == os.Geteuid() || uid == 0) {
		p.local, p.name = true, s.config.UserName(uid)
	}
	return context.WithValue(ctx, peerKey, p)
}

func peerUID(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if ctl := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); ctl != nil {
		return 0, ctl
	}
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

// ListenUnix makes the socket of a daemon, which only its own user can reach. A
// socket that a dead daemon left is removed; the caller holds the lock that says so.
func ListenUnix(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, api.Refusef(api.CodeSocket, "choose another path", "%s exists and is no socket", path)
		}
		if err := os.Remove(path); err != nil { //nolint:forbidigo // a socket at a path that the operator names
			return nil, fmt.Errorf("remove the old socket: %w", err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, api.Failf(api.CodeSocket, err, "listen on %s", path)
	}
	// Who connects before the mode is set has no rights: see identify.
	if err := os.Chmod(path, 0o600); err != nil { //nolint:forbidigo // as above
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

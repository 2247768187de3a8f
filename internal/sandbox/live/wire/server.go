package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execwire"
)

// Options are the limits of a server. All but UID and Version have useful
// defaults.
type Options struct {
	// UID is the only user who may connect, besides root.
	UID int
	// Version is the program's, for messages.
	Version string
	// ReplayBytes is how much of a command's last output its session keeps (256
	// KiB).
	ReplayBytes int
	// MaxSessions bounds the running commands (256), KeepSessions the ended
	// ones that are remembered (64), MaxConnections all connections (1024):
	// when all sessions are in use, there is still room to stop the cell.
	MaxSessions, KeepSessions, MaxConnections int
	// RequestTimeout is the time limit for hello and request together, and for
	// a client to receive an answer (10 s).
	RequestTimeout time.Duration
	// Grace is the time between SIGHUP and killing a command, and the time for
	// clients to receive their last output when the server ends (5 s).
	Grace time.Duration
	// StallLimit is how long one client of a session may block its other
	// clients (10 s).
	StallLimit time.Duration
	// Attached, if set, is called when a client has joined a command. Typed, if set, is
	// called when a client that typed besides those who share the keyboard has left, or
	// the command has ended.
	Attached func(session string)
	Typed    func(session string, bytes int)
	// Undelivered, if set, is called with a request of [Client.Call] that was carried out
	// for a client that had gone before the answer.
	Undelivered func(method string, request json.RawMessage)
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		field *int
		value int
	}{
		{&o.ReplayBytes, 256 << 10}, {&o.MaxSessions, 256}, {&o.KeepSessions, 64}, {&o.MaxConnections, 1024},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.RequestTimeout, 10 * time.Second}, {&o.Grace, 5 * time.Second}, {&o.StallLimit, 10 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return o
}

// server is the state of one call of Serve.
type server struct {
	host Host
	opt  Options
	work sync.WaitGroup // connections, and commands until their exit is recorded

	mu       sync.Mutex
	stopping bool
	running  int // commands, started or about to start
	sessions map[string]*exec
	ended    []string // the oldest first
	places   int      // taken by connections
	// conns records for each connection whether it takes a place.
	conns map[*net.UnixConn]bool
}

// Serve answers connections until ctx ends. Then it kills the commands that
// still run, gives clients the grace period to receive the rest, and returns
// nil when everything has ended. It closes the listener, which must be that of
// a unix socket.
func Serve(ctx context.Context, l net.Listener, h Host, o Options) error {
	s := newServer(h, o)
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	err := s.accept(ctx, l)
	stop()
	_ = l.Close()
	s.shutdown()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func newServer(h Host, o Options) *server {
	return &server{
		host: h, opt: o.withDefaults(),
		sessions: map[string]*exec{}, conns: map[*net.UnixConn]bool{},
	}
}

// accept accepts connections and returns when the listener fails permanently.
func (s *server) accept(ctx context.Context, l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() == nil && isTemporary(err) && pause(ctx) {
				continue
			}
			return fmt.Errorf("accept: %w", err)
		}
		conn, ok := c.(*net.UnixConn)
		if !ok {
			_ = c.Close()
			return fmt.Errorf("accept: a connection of %T, not of a unix socket", c)
		}
		if err := s.admit(conn); err != nil {
			refuse(conn, err)
			continue
		}
		go func() {
			defer s.work.Done()
			defer s.forgetConn(conn)
			s.handle(ctx, conn)
		}()
	}
}

// isTemporary reports whether accepting may work again later: the process or the
// host lacks a resource, or a client gave up.
func isTemporary(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// pause waits for resources to become free, and reports whether to continue.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// admit decides about a connection before a byte of it is read.
func (s *server) admit(conn *net.UnixConn) error {
	uid, err := peerUID(conn)
	if err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	if uid != s.opt.UID && uid != 0 {
		return &api.Error{
			Kind: api.Refused, Code: api.CodeNotYours,
			Message: fmt.Sprintf("the cell belongs to user %d, and user %d may not use it", s.opt.UID, uid),
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopping:
		return errStopping()
	case s.places >= s.opt.MaxConnections:
		return &api.Error{Kind: api.Busy, Code: api.CodeTooMany, Message: "too many clients are connected to this cell"}
	}
	s.conns[conn] = true
	s.places++
	s.work.Add(1)
	return nil
}

// releasePlace frees a connection's place. It is called before the last frame is
// sent, so that a client that has received it finds the place free.
func (s *server) releasePlace(conn *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns[conn] {
		s.conns[conn] = false
		s.places--
	}
}

func (s *server) forgetConn(conn *net.UnixConn) {
	_ = conn.Close()
	s.releasePlace(conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
}

// refuse sends an error and closes the connection. The buffer of a new
// connection has room for it.
func refuse(conn *net.UnixConn, err error) {
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write(message(nil, execwire.Error, toWire(err)))
	_ = conn.Close()
}

func errStopping() error {
	return &api.Error{Kind: api.Refused, Code: api.CodeStopping, Message: "the cell is being stopped"}
}

// concludeLimit bounds the time in which the Host does what it does after the command
// that the cell ends with, before it reports the end of that command.
const concludeLimit = 10 * time.Minute

// shutdown ends commands and connections and waits for them.
func (s *server) shutdown() {
	s.mu.Lock()
	s.stopping = true
	grace := s.opt.Grace
	for _, ses := range s.sessions {
		select {
		case <-ses.done:
		default:
			_ = ses.proc.Signal(int(syscall.SIGKILL))
			if ses.main {
				grace = max(grace, concludeLimit)
			}
		}
	}
	end := time.Now().Add(grace)
	for conn := range s.conns {
		_ = conn.SetDeadline(end)
	}
	s.mu.Unlock()
	s.work.Wait()
}

// reserve reserves a place for a command that is about to start.
func (s *server) reserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopping:
		return errStopping()
	case s.running >= s.opt.MaxSessions:
		return &api.Error{
			Kind: api.Busy, Code: api.CodeTooMany,
			Message: fmt.Sprintf("%d commands run in this cell already", s.running), Hint: "wait for one to end",
		}
	}
	s.running++
	return nil
}

func (s *server) unpromise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
}

// register makes a running command a session, and waits for its end in the
// background. If it cannot be registered it is killed.
func (s *server) register(ses *exec, p Process) error {
	s.mu.Lock()
	ses.proc, ses.info.ID = p, p.ID()
	_, taken := s.sessions[p.ID()]
	var err error
	switch {
	case s.stopping:
		err = errStopping()
	case taken || p.ID() == "":
		err = fmt.Errorf("the command's id %q is taken or empty", p.ID())
	default:
		s.sessions[p.ID()] = ses
	}
	s.work.Add(1)
	s.mu.Unlock()
	if err != nil {
		_ = p.Signal(int(syscall.SIGKILL))
	}
	go func() {
		defer s.work.Done()
		exit := p.Wait()
		// Retire it first, so that a client that has seen the exit finds the
		// place free.
		s.retire(ses, err == nil)
		ses.end(exit)
	}()
	return err
}

// retire keeps an ended session, and drops the oldest ended one.
func (s *server) retire(ses *exec, registered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if !registered {
		return
	}
	s.ended = append(s.ended, ses.info.ID)
	if len(s.ended) > s.opt.KeepSessions {
		delete(s.sessions, s.ended[0])
		s.ended = slices.Delete(s.ended, 0, 1)
	}
}

func (s *server) find(id string) (*exec, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses := s.sessions[id]; ses != nil {
		return ses, nil
	}
	return nil, &api.Error{
		Kind: api.NotFound, Code: api.CodeNotFound,
		Message: fmt.Sprintf("no command has the id %q", id),
		Hint:    fmt.Sprintf("the last %d that ended are remembered", s.opt.KeepSessions),
	}
}

// list returns every session, the oldest first.
func (s *server) list() []Session {
	s.mu.Lock()
	all := make([]*exec, 0, len(s.sessions))
	for _, ses := range s.sessions {
		all = append(all, ses)
	}
	s.mu.Unlock()
	out := make([]Session, len(all))
	for i, ses := range all {
		out[i] = ses.describe()
	}
	slices.SortFunc(out, func(a, b Session) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return out
}

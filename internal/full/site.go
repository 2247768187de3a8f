package full

import (
	"crypto/rand"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/review"
	"github.com/forkcell/forkcell/internal/server"
)

// siteName returns a name of this host for the pages. It is new for each daemon, and
// nobody can guess it: a browser sends the cookies of a name to all of its ports, and
// a cell may listen on one of them through port-forward. Browsers find every name
// below localhost on this host.
func siteName() string { return "forkcell-" + strings.ToLower(rand.Text()[:16]) + ".localhost" }

// mountSite serves the pages for people at /ui.
func mountSite(s *server.Server, engine *cell.Engine, name string) {
	local := &loopback{serve: s.AddListener}
	s.MountSite(review.New(review.Config{
		Sender: func(r *http.Request) (review.Visitor, error) {
			v, err := s.SenderVisitor(r)
			return review.Visitor(v), err
		},
		Secret: func(r *http.Request, secret string) (review.Visitor, error) {
			v, err := s.TokenVisitor(r, secret)
			return review.Visitor(v), err
		},
		Visit: func(r *http.Request, v review.Visitor) (review.Visit, error) {
			visit, err := s.Visit(r, server.Visitor(v))
			if err != nil {
				return nil, err
			}
			return pageVisit{visit, engine}, nil
		},
		Problem: s.Problem, Host: name, Now: time.Now,
		Address: func() (string, error) {
			port, err := local.port()
			return "http://" + net.JoinHostPort(name, port), err
		},
	}))
}

// pageVisit is a visit with the engine that the pages use.
type pageVisit struct {
	*server.Visit
	engine *cell.Engine
}

// Engine implements review.Visit.
func (v pageVisit) Engine(expect *int64) review.Engine { return v.engine.As(v.Caller(expect)) }

// loopback is a listener on this host that is made when it is first asked for: a
// daemon that nobody looks at listens on no port.
type loopback struct {
	mu    sync.Mutex
	serve func(net.Listener)
	at    string
}

// port returns the port of the listener.
func (l *loopback) port() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at != "" {
		return l.at, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", api.Failf(api.CodeSocket, err, "listen on this host for the pages")
	}
	_, l.at, err = net.SplitHostPort(listener.Addr().String())
	l.serve(listener)
	return l.at, err
}

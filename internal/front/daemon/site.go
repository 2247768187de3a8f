package daemon

import (
	"crypto/rand"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/rest"
	"github.com/forkcell/forkcell/internal/front/web"
)

// siteName returns a name of this host for the pages. It is new for each daemon, and
// cannot be guessed: a browser sends the cookies of a name to all of its ports, and
// a cell may listen on one of them through port-forward. Browsers find every name
// below localhost on this host.
func siteName() string { return "forkcell-" + strings.ToLower(rand.Text()[:16]) + ".localhost" }

// mountSite serves the pages for people at /ui.
func mountSite(s *rest.Server, engine *engine.Engine, name string) {
	local := &loopback{serve: s.AddListener}
	s.MountSite(web.New(web.Config{
		Sender: func(r *http.Request) (web.Visitor, error) {
			v, err := s.SenderVisitor(r)
			return web.Visitor(v), err
		},
		Secret: func(r *http.Request, secret string) (web.Visitor, error) {
			v, err := s.TokenVisitor(r, secret)
			return web.Visitor(v), err
		},
		Visit: func(r *http.Request, v web.Visitor) (web.Visit, error) {
			visit, err := s.Visit(r, rest.Visitor(v))
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
	*rest.Visit
	engine *engine.Engine
}

// Engine implements review.Visit.
func (v pageVisit) Engine(expect *int64) web.Engine { return v.engine.As(v.Caller(expect)) }

// loopback is a listener on this host that is made when it is first asked for: a
// daemon whose pages are not used listens on no port.
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

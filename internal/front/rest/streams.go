package rest

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// maxStreams bounds the streams of one caller: events of runs, commands and races,
// what follows events, logs and files, sockets, and proxied connections.
const maxStreams = 256

// streams counts the open streams of each caller.
type streams struct {
	mu   sync.Mutex
	open map[string]int
}

// admit counts a stream until the returned function is called, or refuses it.
func (s *streams) admit(caller string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[string]int{}
	}
	if s.open[caller] >= maxStreams {
		return nil, &api.Error{Kind: api.Busy, Code: api.CodeTooMany, Message: "too many open streams", Hint: "close one of them"}
	}
	s.open[caller]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[caller]--; s.open[caller] == 0 {
			delete(s.open, caller)
		}
	}, nil
}

// streaming runs do as one of the streams of a caller, and reports whether it did. A
// caller that has too many is told so.
func (s *Server) streaming(c *call, w http.ResponseWriter, do func()) bool {
	release, err := s.streams.admit(c.caller.name)
	if err != nil {
		writeProblem(w, s.problemOf(c, err))
		return false
	}
	defer release()
	do()
	return true
}

// exchange is a request whose answer a route writes itself.
type exchange struct {
	*call
	server *Server
	w      http.ResponseWriter
	r      *http.Request
}

// fail answers with the problem document of an error.
func (x *exchange) fail(err error) { writeProblem(x.w, x.server.problemOf(x.call, err)) }

// handleExchange adds a route that writes its answer itself. responses describes the
// answers of success.
func handleExchange[I any](s *Server, o op.Verb, responses map[string]*huma.Response, do func(context.Context, *exchange, *I)) {
	def := operationOf(o)
	def.Responses = responses
	registerExchange(s, def, do)
}

// registerExchange adds an operation whose route writes the answer itself.
func registerExchange[I any](s *Server, def huma.Operation, do func(context.Context, *exchange, *I)) {
	register(s, def, func(ctx context.Context, c *call, in *I) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			request, w := humago.Unwrap(hctx)
			do(ctx, &exchange{call: c, server: s, w: w, r: request}, in)
		}}, nil
	})
}

// stream runs do, whose answer has no end of its own. The context ends with that of
// the request, and when the daemon begins to stop, which waits for do.
func (x *exchange) stream(ctx context.Context, do func(context.Context)) { x.streamFor(ctx, 0, do) }

// streamFor is stream with a time for do to end by itself when the daemon stops.
func (x *exchange) streamFor(ctx context.Context, grace time.Duration, do func(context.Context)) {
	release, err := x.server.streams.admit(x.caller.name)
	if err != nil {
		x.fail(err)
		return
	}
	defer release()
	x.server.jobs.all.Add(1)
	defer x.server.jobs.all.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.server.open, func() { time.AfterFunc(grace, cancel) })()
	do(ctx)
}

package rest

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.opentelemetry.io/otel/trace"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/hint"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/token"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/session"
	"github.com/forkcell/forkcell/internal/text/document"
)

// Config has the parts of a Server.
type Config struct {
	// Engine returns an engine that acts for a caller.
	Engine func(caller.Caller) Engine
	// UserName returns the name of a local user, as statements record it.
	UserName func(uid int) string
	// Touch, if set, is called with the name of a cell for each request about it.
	Touch func(cell string)
	// Tokens are the tokens of callers.
	Tokens *token.Book
	// Hosts are the names by which callers over TCP may address the daemon.
	Hosts []string
	// MaxLive and MaxRuns bound live cells and runs at once; 0 is no bound.
	MaxLive, MaxRuns int
	// Version is that of this program.
	Version string
	// AllowSource are the directories of the host that callers with a token may
	// name, with everything below them.
	AllowSource []string
	// CredentialsFile is the operator's file of credentials; "" for none.
	CredentialsFile api.Text
	// GrantsFile is the operator's file of grants, for callers over the local socket; ""
	// is none.
	GrantsFile api.Text
	// Agents are the coding agents of the host, for sessions. AllowAgents are the names of
	// those that callers with a token may start.
	Agents      session.Host
	AllowAgents []string
	Publish     PublishConfig
	// Requests records every request that was answered. nil drops them.
	Requests interface{ Record(c event.Call) }
	// Pool returns the number of first processes of cells that are ready, and of those
	// that are kept ready. nil for none.
	Pool func() (ready, size int)
	// Traces makes the spans of requests and runs. nil makes none.
	Traces trace.TracerProvider
	// BodyTimeout is how long a body may pause; 0 is 30 s.
	BodyTimeout time.Duration
	// DrainLimit is how long a server that stops waits for the requests that are being
	// answered; 0 is 30 s. Then it interrupts them, and waits for their answers no longer
	// than InterruptLimit; 0 is 30 s.
	DrainLimit, InterruptLimit time.Duration
	// Logger gets a line for each request. nil drops them.
	Logger *slog.Logger
}

// pool returns the levels of the pool.
func (c Config) pool() (ready, size int) {
	if c.Pool == nil {
		return 0, 0
	}
	return c.Pool()
}

// Server serves the REST API.
type Server struct {
	config   Config
	logger   *slog.Logger
	mux      *http.ServeMux
	api      huma.API
	jobs     jobs
	metrics  *metrics
	traces   traces
	keyed    inFlight
	gate     *token.Gate
	limiter  *token.Limiter
	streams  streams
	starting startingCells
	captures captures
	held     heldAgents
	drain    drain
	arrivals arrivals
	// words are those of hints.
	words hint.Words
	// extra takes listeners that are added while the server serves.
	extra chan net.Listener
	// work is the context of all work, also of runs that outlive their request. It ends
	// when a daemon that stops has waited for the requests.
	work context.Context
	stop context.CancelFunc
	// open is the context of streams without an end of their own. It ends when the
	// daemon begins to stop.
	open  context.Context
	close context.CancelFunc
}

// New makes a Server.
func New(c Config) *Server {
	s := &Server{config: c, logger: c.Logger, mux: http.NewServeMux(), extra: make(chan net.Listener)}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.gate, s.limiter = token.NewGate(c.Tokens, time.Now), token.NewLimiter(time.Now)
	s.metrics, s.traces = newMetrics(s.jobs.count, c.pool), newTraces(c.Traces)
	s.work, s.stop = context.WithCancel(context.Background())
	s.open, s.close = context.WithCancel(s.work)
	configureHuma()
	s.api = humago.New(s.mux, apiConfig())
	s.api.UseMiddleware(s.authorize)
	s.addRoutes()
	shareErrors(s.api.OpenAPI())
	leaveBodies(s.api.OpenAPI().Components.Schemas)
	describeOperatorFields(s.api.OpenAPI().Components.Schemas)
	s.words = routeWords(s.api.OpenAPI())
	return s
}

// configureHuma sets the library's package variables, once for the process: errors
// are problem documents, and lists are never null.
var configureHuma = sync.OnceFunc(func() {
	huma.NewErrorWithContext = libraryProblem
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return libraryProblem(nil, status, msg, errs...)
	}
	huma.DefaultArrayNullable = false
	huma.ValidateStrictCasing = true
})

// newRegistry returns a registry of schemas. Those of requests are called bodies, which is
// all that they describe.
func newRegistry() huma.Registry {
	return huma.NewMapRegistry("#/components/schemas/", func(t reflect.Type, hint string) string {
		name := huma.DefaultSchemaNamer(t, hint)
		if verb, ok := strings.CutSuffix(name, "Request"); ok && verb != "ReceiptVerify" { // which has kept its name
			return verb + "Body"
		}
		return name
	})
}

// leaveBodies takes the fields that requests have in their path or query out of the schemas
// of their bodies.
func leaveBodies(registry huma.Registry) {
	for name, schema := range registry.Map() {
		t := registry.TypeFromRef("#/components/schemas/" + name)
		if t == nil || t.Kind() != reflect.Struct {
			continue
		}
		for _, field := range op.BesideBody(t) {
			delete(schema.Properties, field)
			schema.PrecomputeMessages()
		}
	}
}

func apiConfig() huma.Config {
	registry := newRegistry()
	format := huma.Format{Marshal: document.Write, Unmarshal: readBody}
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Forkcell", Version: "1",
				Description: "Checkpoint, governed run, signed receipt, then accept, restore or fork.",
			},
			Components: &huma.Components{
				Schemas: registry,
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token": {Type: "http", Scheme: "bearer", Description: "A token of `forkcell token create`. The local socket needs none."},
				},
			},
			Security: []map[string][]string{{"token": {}}, {}},
		},
		OpenAPIPath:                  "",
		Formats:                      map[string]huma.Format{"application/json": format, "json": format},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	}
}

// OpenAPI returns the description of the API as YAML.
func (s *Server) OpenAPI() ([]byte, error) { return s.api.OpenAPI().YAML() }

// addRoutes adds every route.
func (s *Server) addRoutes() {
	s.addOperations()
	s.addDocs()
	s.addMetrics()
	s.addCells()
	s.addRuns()
	s.addMoves()
	s.addDiff()
	s.addEvidence()
	s.addEvents()
	s.addPolicies()
	s.addTokens()
	s.addRace()
	s.addUpdates()
	s.addDetails()
	s.addLive()
	s.describePorts()
	s.addFiles()
	s.addArchives()
	s.addSessions()
	s.addAgents()
	s.mux.HandleFunc("/", s.notFound)
}

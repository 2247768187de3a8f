package rest

import (
	"context"
	"net/http"

	"github.com/forkcell/forkcell/internal/api"
)

const tagOperation = "operation"

// addOperations adds the routes about the daemon itself.
func (s *Server) addOperations() {
	handle(s, route{method: http.MethodGet, path: "/healthz", id: "health", tag: tagOperation, summary: "Whether the daemon runs"},
		func(context.Context, *call, *struct{}) (*api.Health, error) { return &api.Health{Status: "ok"}, nil })
	handle(s, route{method: http.MethodGet, path: "/readyz", id: "ready", tag: tagOperation, summary: "Whether the daemon takes requests"}, s.ready)
	handle(s, route{method: http.MethodGet, path: "/version", id: "version", tag: tagOperation, summary: "What the daemon speaks"},
		func(context.Context, *call, *struct{}) (*api.VersionInfo, error) {
			return &api.VersionInfo{Version: s.config.Version, API: "v1"}, nil
		})
	s.mux.HandleFunc("GET /openapi.json", s.serveOpenAPI)
}

func (s *Server) ready(context.Context, *call, *struct{}) (*api.Health, error) {
	if s.drain.isStopping() {
		return nil, errDraining()
	}
	return &api.Health{Status: "ok"}, nil
}

func (s *Server) serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	if !c.caller.may(Read) {
		writeProblem(w, c.deny(Read))
		return
	}
	text, err := s.api.OpenAPI().MarshalJSON()
	if err != nil {
		writeProblem(w, s.problemOf(c, err))
		return
	}
	w.Header().Set("Content-Type", "application/vnd.oai.openapi+json")
	_, _ = w.Write(text)
}

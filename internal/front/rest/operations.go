package rest

import (
	"context"
	"net/http"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// addOperations adds the routes about the daemon itself.
func (s *Server) addOperations() {
	showBy(s, op.Health,
		func(context.Context, *call, *op.None) (*api.Health, error) { return &api.Health{Status: "ok"}, nil })
	showBy(s, op.Ready, s.ready)
	showBy(s, op.Version,
		func(context.Context, *call, *op.None) (*api.VersionInfo, error) {
			return &api.VersionInfo{Version: s.config.Version, API: "v1"}, nil
		})
	s.addBeside(op.OpenAPI, s.serveOpenAPI)
}

func (s *Server) ready(context.Context, *call, *op.None) (*api.Health, error) {
	if s.drain.isStopping() {
		return nil, errDraining()
	}
	return &api.Health{Status: "ok"}, nil
}

func (s *Server) serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	text, err := s.api.OpenAPI().MarshalJSON()
	if err != nil {
		writeProblem(w, s.problemOf(callOf(r.Context()), err))
		return
	}
	w.Header().Set("Content-Type", "application/vnd.oai.openapi+json")
	_, _ = w.Write(text)
}

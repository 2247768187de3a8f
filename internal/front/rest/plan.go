package rest

import (
	"context"
	"net/http"

	"github.com/forkcell/forkcell/internal/api"
)

type planner interface {
	Plan(ctx context.Context, r api.RunRequest) (*api.RunPlan, error)
}

type planInput struct {
	InCell
	Body api.RunBody
}

// addPlan adds the route that shows how a command would be run.
func (s *Server) addPlan() {
	handle(s, route{
		method: http.MethodPost, path: "/v1/cells/{cell}/plan", id: "planRun", tag: tagRuns, summary: "Show the controls of a run, without running anything", needs: []Scope{Run},
	}, func(ctx context.Context, c *call, in *planInput) (*api.RunPlan, error) {
		job, err := s.newRun(ctx, c, &startRunInput{InCell: in.InCell, Body: in.Body})
		if err != nil {
			return nil, err
		}
		defer job.release()
		return job.engine.Plan(ctx, job.request)
	})
}

package rest

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
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
	handle(s, op.PlanRun, func(ctx context.Context, c *call, in *planInput) (*api.RunPlan, error) {
		job, err := s.newRun(ctx, c, &startRunInput{InCell: in.InCell, Body: in.Body})
		if err != nil {
			return nil, err
		}
		defer job.release()
		return job.engine.Plan(ctx, job.request)
	})
}

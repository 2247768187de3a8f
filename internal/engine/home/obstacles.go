package home

import (
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// HeldBack returns the refusal of what may not be written to the host, or nil without any.
// noun counts it, and without is how to write the rest.
func HeldBack(noun string, held []api.Obstacle, without string) error {
	if len(held) == 0 {
		return nil
	}
	var ways []string
	if slices.ContainsFunc(held, func(o api.Obstacle) bool { return !o.Rights }) {
		ways = append(ways, "--allow-control PATTERN")
	}
	if slices.ContainsFunc(held, func(o api.Obstacle) bool { return o.Rights }) {
		ways = append(ways, "--allow-setuid")
	}
	return RefuseObstacles(&api.Error{
		Kind: api.Refused, Code: api.CodeHeldBack,
		Message: api.Counted(len(held), noun) + " held back, nothing was written",
		Hint:    "look at them, then give " + strings.Join(ways, " or ") + ", or " + without,
	}, held)
}

// RefuseObstacles adds obstacles to a refusal.
func RefuseObstacles(e *api.Error, list []api.Obstacle) error {
	for _, o := range list {
		e.Details = append(e.Details, quote.Path(o.Path)+": "+o.Reason)
	}
	e.Err = &api.ObstacleError{Obstacles: list}
	return e
}

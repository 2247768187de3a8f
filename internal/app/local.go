package app

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/race"
)

// Local is an engine of this process, with what is built on top of it.
type Local struct{ *cell.Engine }

// Doctor reports what this host can enforce.
func (l Local) Doctor(ctx context.Context) ([]driver.Check, error) { return l.Engine.Doctor(ctx), nil }

// Race makes several attempts in forks of a cell, and chooses one.
func (l Local) Race(ctx context.Context, req api.RaceRequest, events func(api.RaceEvent)) (*api.RaceResult, error) {
	return race.Run(ctx, l.Engine, req, events)
}

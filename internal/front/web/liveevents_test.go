package web

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
)

// liveEngine has a run for each cell, and notes whose events are asked for.
type liveEngine struct {
	Engine
	ended map[string]bool
	asked []string
}

func (e *liveEngine) RecentRuns(_ context.Context, cell string, _ int64, _ int) ([]api.RunInfo, int64, error) {
	run := api.RunInfo{RunID: cell}
	if e.ended[cell] {
		run.FinishedAt = new(time.Time)
	}
	return []api.RunInfo{run}, 0, nil
}

func (e *liveEngine) Events(_ context.Context, q api.EventQuery, _ func(event.Record) error) error {
	e.asked = append(e.asked, q.Run)
	return nil
}

// TestLiveEventsFollowed: cells in which nothing runs leave the places to those at work.
func TestLiveEventsFollowed(t *testing.T) {
	t.Parallel()
	e := &liveEngine{ended: map[string]bool{}}
	var cells []api.CellInfo
	var want []string
	for i := range 2 * eventsFollowed {
		n := strconv.Itoa(i)
		cells = append(cells,
			api.CellInfo{Cell: "idle" + n, State: api.StateIdle}, api.CellInfo{Cell: "paused" + n, State: api.StatePaused},
			api.CellInfo{Cell: "ended" + n, State: api.StateLive}, api.CellInfo{Cell: "live" + n, State: api.StateLive})
		e.ended["ended"+n] = true
		want = append(want, "live"+n)
	}
	new(eventWatch).look(t.Context(), e, cells)
	if !slices.Equal(e.asked, want[:eventsFollowed]) {
		t.Errorf("follows %q", e.asked)
	}
}

package history

import (
	"context"
	"iter"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/suggest"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// SuggestPolicy returns the policy of a run with what the run was denied added to
// it. "" is the cell's last run.
func (h *History) SuggestPolicy(_ context.Context, cell, run string) (*api.PolicySuggestion, error) {
	c, err := h.FindCell(cell)
	if err != nil {
		return nil, err
	}
	var r store.Run
	err = h.View(func(tx *store.Tx) error {
		// The run of a live cell has not ended, and is its last one.
		if unfinished, err := tx.UnfinishedRuns(c.ID); err == nil && run == "" && len(unfinished) > 0 {
			r = unfinished[len(unfinished)-1]
			return nil
		}
		r, err = h.FindRun(tx, c, run)
		return err
	})
	if err != nil {
		return nil, err
	}
	p, err := h.LastPolicy(r)
	if err != nil {
		return nil, err
	}
	events := func(f event.Filter) iter.Seq2[event.Record, error] { return h.JournalOf(r.ID, f) }
	live := home.IsLive(r) // a live cell always has a name server
	return suggest.Policy(suggest.Run{
		Cell: c.Name, ID: r.ID, Policy: p, Events: events,
		Commands:   slices.Concat(r.Command, suggest.CommandLines(events(event.Filter{Class: event.ProcessActivity}))),
		Unobserved: !live && !p.NeedsNetwork() && !p.NeedsCredentials() && !showsAttempts(events),
		Parse: func(text []byte) (*policy.Policy, error) {
			return h.Caller.ParsePolicy(api.PolicyFile{Name: "suggestion", Text: text})
		},
	})
}

// showsAttempts reports whether events show what a run without a network tried. Those of older
// runs, and of hosts that cannot capture connections, never do.
func showsAttempts(events func(event.Filter) iter.Seq2[event.Record, error]) bool {
	return suggest.Destinations(events(event.Filter{Action: event.ActionDenied})).Attempts > 0
}

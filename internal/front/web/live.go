package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

const (
	// lookEvery is the time between two looks at cells that a page follows.
	lookEvery = time.Second
	// beatEvery is the time after which a quiet stream shows that it is alive.
	beatEvery = 15 * time.Second
)

func (s *Site) addLive() { s.get("/live", (*request).live) }

// live notifies a page of changes. What it is the page finds out by
// loading itself again: there is one way in which pages are made.
func (q *request) live() error {
	name := q.URL.Query().Get("cell")
	if name != "" {
		if _, err := q.visible(name); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(q.Context())
	output, wait, err := q.followOutput(ctx, name)
	if err != nil {
		cancel()
		return err
	}
	defer wait()
	defer cancel()
	control := http.NewResponseController(q.w)
	return q.visit.Stream(ctx, func(ctx context.Context) {
		q.w.Header().Set("Content-Type", "text/event-stream")
		watch := q.newWatch()
		last, err := q.version(ctx, name, watch)
		if err != nil || send(q.w, control, "state", last) != nil {
			return
		}
		q.follow(ctx, func() (string, error) { return q.version(ctx, name, watch) }, last, output, control)
	})
}

// follow sends an event after each change, and at most one for each look with the end of
// the output.
func (q *request) follow(ctx context.Context, version func() (string, error), last string, output *followedOutput, control *http.ResponseController) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	sent := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if news := output.update(); news != "" {
			sent = time.Now()
			if send(q.w, control, "output", news) != nil {
				return
			}
		}
		now, err := version()
		switch {
		case err != nil:
			return
		case now != last:
			last, sent = now, time.Now()
			if send(q.w, control, "state", now) != nil {
				return
			}
		case time.Since(sent) > beatEvery:
			sent = time.Now()
			if send(q.w, control, "beat", "") != nil {
				return
			}
		}
	}
}

// sendLimit is how long a browser may take for an event. One that does not read would
// otherwise keep the daemon from ending.
const sendLimit = 30 * time.Second

func send(w http.ResponseWriter, control *http.ResponseController, kind, data string) error {
	// A writer without deadlines is a test's.
	_ = control.SetWriteDeadline(time.Now().Add(sendLimit))
	if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data); err != nil {
		return err
	}
	return control.Flush()
}

// version returns a hash that changes with a cell, or with any cell that the visitor
// sees, and with their events if the page shows those.
func (q *request) version(ctx context.Context, name string, watch *eventWatch) (string, error) {
	var list []api.CellInfo
	if name == "" {
		var err error
		if list, err = q.visibleCells(ctx); err != nil {
			return "", err
		}
	} else {
		s, err := q.engine.Status(ctx, name)
		if err != nil {
			return "", err
		}
		list = []api.CellInfo{s.CellInfo}
	}
	sum := sha256.New()
	for _, c := range list {
		_, _ = fmt.Fprintln(sum, c.CellID, c.Cell, c.Revision, c.State, c.LastRun, c.LastOutcome, c.LastDecision)
	}
	_, _ = fmt.Fprintln(sum, watch.look(ctx, q.engine, list))
	return hex.EncodeToString(sum.Sum(nil)), nil
}

package review

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
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

// live tells a page when something has changed. What it is the page finds out by
// loading itself again: there is one way in which pages are made.
func (q *request) live() error {
	name := q.URL.Query().Get("cell")
	if name != "" {
		if _, err := q.visible(name); err != nil {
			return err
		}
	}
	control := http.NewResponseController(q.w)
	_ = control.SetWriteDeadline(time.Time{})
	return q.visit.Stream(q.Context(), func(ctx context.Context) {
		q.w.Header().Set("Content-Type", "text/event-stream")
		last, err := q.version(ctx, name)
		if err != nil || send(q.w, control, "state", last) != nil {
			return
		}
		q.follow(ctx, name, last, control)
	})
}

// follow sends an event after each change.
func (q *request) follow(ctx context.Context, name, last string, control *http.ResponseController) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	sent := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		now, err := q.version(ctx, name)
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

func send(w http.ResponseWriter, control *http.ResponseController, kind, data string) error {
	if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data); err != nil {
		return err
	}
	return control.Flush()
}

// version returns a text that changes with a cell, or with any cell.
func (q *request) version(ctx context.Context, name string) (string, error) {
	if name != "" {
		s, err := q.engine.Status(ctx, name)
		if err != nil {
			return "", err
		}
		return stateVersion(s.CellInfo), nil
	}
	runs, _, err := q.engine.RecentRuns(ctx, "", 0, 1)
	if err != nil {
		return "", err
	}
	text := ""
	for _, r := range runs {
		text = r.RunID + r.State + r.Decision
	}
	return text, nil
}

func stateVersion(c api.CellInfo) string {
	return strconv.FormatInt(c.Revision, 10) + " " + c.State + " " + c.LastRun
}

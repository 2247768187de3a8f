package web

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
)

// followedOutput is the end of what a run writes, kept up to date.
type followedOutput struct {
	mu    sync.Mutex
	tails [2]tailWriter // stdout and stderr
	shown int64         // bytes of both that the page has
}

// followedWriter is one stream of a run that is followed.
type followedWriter struct {
	f      *followedOutput
	stream int
}

func (w followedWriter) Write(b []byte) (int, error) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	return w.f.tails[w.stream].Write(b)
}

// followOutput follows what the run of the request's query writes, until it ends or the
// context does. It returns nil if the query names none. wait waits for the end.
func (q *request) followOutput(ctx context.Context, cell string) (f *followedOutput, wait func(), err error) {
	id := q.URL.Query().Get("run")
	if id == "" {
		return nil, func() {}, nil
	}
	info, err := q.engine.RunInfo(ctx, id)
	if err == nil && info.Cell != cell {
		err = api.Missing("run", id, "the page of a cell lists its runs")
	}
	if err != nil {
		return nil, nil, err
	}
	f = &followedOutput{tails: [2]tailWriter{{limit: tailBytes}, {limit: tailBytes}}}
	f.shown, _ = strconv.ParseInt(q.URL.Query().Get("shown"), 10, 64) // else everything is new
	var streams sync.WaitGroup
	for i := range f.tails {
		streams.Go(func() {
			// What cannot be read is not followed: the page says so.
			_ = q.engine.RunLog(ctx, info.RunID, i == 1, true, followedWriter{f, i})
		})
	}
	return f, streams.Wait, nil
}

// update returns the part of the page with the output, as a string of JSON, if there is
// more than the page has. Before, the output that the page has is read again.
func (f *followedOutput) update() string {
	if f == nil {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	total := f.tails[0].total + f.tails[1].total
	if total <= f.shown {
		return ""
	}
	var list []stream
	for i, name := range []string{"stdout", "stderr"} {
		if s := newStream(name, &f.tails[i]); s.Total > 0 {
			list = append(list, s)
		}
	}
	var b bytes.Buffer
	if err := pages()["session"].ExecuteTemplate(&b, "streams", list); err != nil {
		return ""
	}
	text, err := json.Marshal(b.String())
	if err != nil {
		return ""
	}
	f.shown = total
	return string(text)
}

// liveRun returns the address of updates for a page of a run, with its output until it
// has ended.
func liveRun(r *api.RunInfo) string {
	id := r.RunID
	if r.FinishedAt != nil {
		id = ""
	}
	return path("live") + query("cell", r.Cell, "run", id)
}

// shownBytes returns how much the streams of a page have in all.
func shownBytes(list []stream) (total int64) {
	for _, s := range list {
		total += s.Total
	}
	return total
}

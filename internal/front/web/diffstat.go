package web

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
	agentsession "github.com/forkcell/forkcell/internal/session"
	"github.com/forkcell/forkcell/internal/storage/patch"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// diffstat is how much a run or a session changed.
type diffstat struct {
	Files, Added, Removed int
	// Counted reports whether the lines are counted: a page reads only so much for that.
	Counted bool
}

// statRoom is how much a page may still compare to count lines.
type statRoom struct{ files, bytes int64 }

// newStatRoom returns the room of one page, whatever the number of its runs.
func newStatRoom() *statRoom { return &statRoom{files: 1000, bytes: 8 << 20} }

// take reports whether a change still fits. Files that are too large are not read whole.
func (r *statRoom) take(c tree.Change) bool {
	r.files--
	r.bytes -= min(size(c.Old), maxText) + min(size(c.New), maxText)
	return r.files >= 0 && r.bytes >= 0
}

// runStat counts the lines that a run changed, as far as there is room.
func (q *request) runStat(ctx context.Context, cell, run string, files int, room *statRoom) diffstat {
	if run == "" {
		return diffstat{Files: files}
	}
	return q.diffstat(ctx, api.DiffRequest{Cell: cell, Run: run}, files, room)
}

// sessionStat counts the lines that a session changed, as far as there is room. One that
// runs is not captured for it: only the number of files is known.
func (q *request) sessionStat(ctx context.Context, s *api.AgentSession, room *statRoom) diffstat {
	if s.LiveStatus != "stopped" {
		return diffstat{Files: s.ChangedFiles}
	}
	return q.diffstat(ctx, agentsession.Changes(s), s.ChangedFiles, room)
}

// diffstat counts the lines of changes, as far as there is room. If their states cannot be
// compared, as after gc, only the number of files is known.
func (q *request) diffstat(ctx context.Context, r api.DiffRequest, files int, room *statRoom) diffstat {
	stat := diffstat{Files: files}
	if files == 0 || int64(files) > room.files {
		return stat
	}
	r.Stream = true
	res, err := q.engine.Diff(ctx, r)
	if err != nil {
		return stat
	}
	_, added, removed, err := patch.Lines(func(fn func(tree.Change) error) error {
		return res.Each(func(c tree.Change) error {
			if !room.take(c) {
				return errFound
			}
			return fn(c)
		})
	}, res.Open)
	if err == nil {
		stat.Added, stat.Removed, stat.Counted = added, removed, true
	}
	return stat
}

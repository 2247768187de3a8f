package engine_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/local"
)

// loseLog removes files of the log: the newest n, or with a negative n the
// oldest.
func (p *past) loseLog(n int) {
	p.Helper()
	files, err := filepath.Glob(filepath.Join(p.home, "log/*/*.json"))
	p.ok(err)
	slices.Sort(files)
	if n < 0 {
		files = files[:-n]
	} else {
		files = files[max(0, len(files)-n):]
	}
	for _, f := range files {
		p.ok(os.Remove(f))
	}
}

// runRecover runs recover.
func (p *past) runRecover(acceptLoss bool) (*api.RecoverResult, error) {
	p.Helper()
	p.closeHome()
	e, release, err := local.Open(p.home, local.Rescue, tester())
	p.ok(err)
	defer func() { p.ok(release()) }()
	return e.Recover(p.ctx, acceptLoss)
}

// kept checks that everything is as before, gc frees none of it, and the cell
// can be used.
func (p *past) kept(before *api.StatusResult) {
	p.Helper()
	p.reopen()
	_, err := p.e.GC(p.ctx, api.GCRequest{})
	p.ok(err)
	after, err := p.e.Status(p.ctx, "demo")
	p.ok(err)
	if before.Head != after.Head || before.Runs != after.Runs || !slices.Equal(before.PendingRuns, after.PendingRuns) {
		p.Fatalf("before %+v\nafter %+v", before, after)
	}
	_, err = p.e.Verify(p.ctx, "demo", "base", false)
	if err != nil {
		p.Logf("verify: %v", err) // it says that the statement is lost
	}
	p.wantInside("demo", "docs/a.md", "a\nlater\n")
	_, err = p.e.Diff(p.ctx, api.DiffRequest{Cell: "demo", Run: p.pending.RunID})
	p.ok(err)
}

// TestRecoverKeepsWhatOneSideKnows: log and database confirm each other.
func TestRecoverKeepsWhatOneSideKnows(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(p *past){
		"the newest files of the log": func(p *past) { p.loseLog(3) },
		"the whole log":               func(p *past) { p.loseLog(1000) },
		"the first statement":         func(p *past) { p.loseLog(-1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPast(t, "overlay")
			before, err := p.e.Status(p.ctx, "demo")
			p.ok(err)
			lose(p)
			for range 2 { // again, it says the same
				res, err := p.runRecover(false)
				p.refused(err, api.Refused, "known to only one")
				if len(res.Kept) == 0 || !strings.Contains(hintOf(err), "--accept-loss") {
					t.Fatalf("%+v; %s", res, hintOf(err))
				}
			}
			p.kept(before)
			_, err = p.runRecover(true)
			p.ok(err)
			p.reopen()
			_, err = p.e.GC(p.ctx, api.GCRequest{})
			p.ok(err)
		})
	}
}

// TestRecoverWithoutADatabase: what the log does not name is kept, too.
func TestRecoverWithoutADatabase(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]int{"the newest files": 2, "the first statement": -1, "all of it": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPast(t, "overlay")
			layers, err := os.ReadDir(filepath.Join(p.home, "layers"))
			p.ok(err)
			p.loseLog(lost)
			p.loseDatabase()
			_, _, err = local.Open(p.home, local.Write, tester())
			p.refused(err, api.Refused, "missing")
			if res, err := p.runRecover(false); err == nil && lost != -1 {
				t.Fatalf("%+v", res)
			}
			p.reopen()
			_, err = p.e.GC(p.ctx, api.GCRequest{OlderThan: engine.DefaultOlderThan})
			p.ok(err)
			after, err := os.ReadDir(filepath.Join(p.home, "layers"))
			p.ok(err)
			if lost != -1 && len(after) != len(layers) {
				t.Errorf("%d layers of %d are left", len(after), len(layers))
			}
			if lost == -1 {
				p.wantInside("demo", "docs/a.md", "a\nlater\n")
				_, err = p.e.Accept(p.ctx, api.AcceptRequest{Cell: "demo"})
				p.ok(err)
				for what, err := range map[string]error{
					"apply":   errorOf(p.e.Apply(p.ctx, api.ApplyRequest{Cell: "demo"})),
					"refresh": errorOf(p.e.Refresh(p.ctx, api.RefreshRequest{Cell: "demo"})),
				} {
					if err != nil && hintOf(err) == "" {
						t.Errorf("%s: %v, without a hint", what, err)
					}
				}
			}
		})
	}
}

// TestGCNoticesLostRows: a layer whose row is lost is not garbage.
func TestGCNoticesLostRows(t *testing.T) {
	t.Parallel()
	p := newPast(t, "overlay")
	before, err := p.e.Status(p.ctx, "demo")
	p.ok(err)
	p.sql("PRAGMA foreign_keys=OFF")
	p.sql("DELETE FROM names")
	p.sql("DELETE FROM checkpoints WHERE id=?", p.pending.CheckpointAfter)
	p.reopen()
	_, err = p.e.GC(p.ctx, api.GCRequest{})
	p.refused(err, api.Refused, "which the log has")
	_, err = p.runRecover(false)
	p.refused(err, api.Refused, "known to only one")
	p.kept(before)
}

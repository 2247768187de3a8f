package engine_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestShownIsAccepted: over random histories, what the source directory gets by a decision
// is what was shown before it, file by file: by the diff, by the prompt about one run, and by
// the page with some files unticked.
func TestShownIsAccepted(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			t.Parallel()
			p := &promise{world: newWorld(t), rng: rand.New(rand.NewPCG(seed, 7)), cells: []string{"demo"}}
			p.init("demo", "")
			for range 40 {
				p.step()
			}
			if p.decided == 0 {
				t.Error("nothing was decided")
			}
			p.sound(p.cells...)
		})
	}
}

// promise is a random history, and what is known of it.
type promise struct {
	*world
	rng     *rand.Rand
	cells   []string
	n       int
	decided int
}

func (p *promise) pick(list ...string) string { return list[p.rng.IntN(len(list))] }

func (p *promise) step() {
	p.Helper()
	p.n++
	name := p.pick(p.cells...)
	switch p.rng.IntN(12) {
	case 0, 1, 2, 3:
		p.run(name)
	case 4:
		p.write(p.pick("s0", "s1", "s2"), fmt.Sprint("of the user ", p.n))
		_, err := p.e.Refresh(p.ctx, api.RefreshRequest{Cell: name})
		p.tolerate(err)
	case 5:
		if len(p.cells) < 4 {
			p.fork(name)
		}
	case 6:
		log, err := p.e.Log(p.ctx, name)
		p.ok(err)
		at := log[p.rng.IntN(len(log))].CheckpointID
		if _, err = p.e.Restore(p.ctx, api.RestoreRequest{Cell: name, Checkpoint: at}); err != nil {
			p.tolerate(err)
		}
	case 7:
		_, err := p.e.Reject(p.ctx, name, "", "no")
		p.tolerate(err)
	case 8:
		shown := p.show(api.DiffRequest{Cell: name})
		_, err := p.e.Accept(p.ctx, api.AcceptRequest{Cell: name, Runs: shown.Runs})
		p.tolerate(err)
	case 9:
		p.decide(name, p.show(api.DiffRequest{Cell: name}), nil)
	case 10:
		shown := p.show(api.DiffRequest{Cell: name})
		var unticked []string
		for _, ch := range shown.Changes {
			if ch.Type == "file" && p.rng.IntN(3) == 0 {
				unticked = append(unticked, ch.Path)
			}
		}
		p.decide(name, shown, unticked)
	case 11:
		p.run(name)
		last, err := p.e.Status(p.ctx, name)
		p.ok(err)
		p.decide(name, p.show(api.DiffRequest{Cell: name, Run: last.LastRun}), nil)
	}
}

func (p *promise) run(name string) {
	p.Helper()
	file := func() string { return p.pick("a", "b", "c", "d/x", "d/y", "hello.txt", "docs/a.md") }
	script := "mkdir -p d docs"
	for range 1 + p.rng.IntN(3) {
		p.n++
		switch p.rng.IntN(8) {
		case 0, 1:
			script += "; rm -rf " + file()
		case 2, 3:
			script += fmt.Sprintf("; mv %s %s 2>/dev/null", file(), file())
		case 4:
			script += "; " + p.pick("ln -sfn nowhere ", "ln -sfn b ", "chmod 700 ", "chmod 640 ", "chmod 755 ", "mkdir ") + p.pick(file(), "d", "e", "d/z") + " 2>/dev/null"
		default:
			script += fmt.Sprintf("; echo %d >> %s", p.n, file())
		}
	}
	p.sh(name, script+"; true")
}

// fork makes a fork, or what a session makes: one without the undecided work.
func (p *promise) fork(name string) {
	p.Helper()
	to := fmt.Sprint("fork", len(p.cells))
	session := p.rng.IntN(2) == 0
	_, err := p.e.Fork(p.ctx, api.ForkRequest{Cell: name, Name: to, Accepted: session})
	p.ok(err)
	p.cells = append(p.cells, to)
	if !session {
		return
	}
	_, err = p.e.Refresh(p.ctx, api.RefreshRequest{Cell: to})
	p.tolerate(err)
	if status, err := p.e.Status(p.ctx, to); err != nil || len(status.PendingRuns) > 0 && p.undecided(to) {
		p.Errorf("a session begins with undecided work: %v %v", status, err)
	}
}

func (p *promise) undecided(name string) bool {
	return len(p.show(api.DiffRequest{Cell: name}).Runs) > 0
}

func (p *promise) show(r api.DiffRequest) *api.DiffResult {
	p.Helper()
	r.Unpaired = true
	res, err := p.e.Diff(p.ctx, r)
	if api.CodeOf(err) == api.CodeNotFound { // the cell has no run
		return &api.DiffResult{}
	}
	p.ok(err)
	return &res.DiffResult
}

// decide accepts what was shown without the unticked files, applies it, and compares the
// directory with what was shown.
func (p *promise) decide(name string, shown *api.DiffResult, unticked []string) {
	p.Helper()
	if len(shown.Runs) == 0 {
		return
	}
	earlier := []string{}
	for _, w := range shown.Earlier {
		earlier = append(earlier, w.ID)
	}
	before, all := p.files(), p.entries()
	waiting, err := p.waiting(name)
	if err != nil {
		p.tolerate(err)
		return
	}
	_, err = p.e.Accept(p.ctx, api.AcceptRequest{
		Cell: name, Runs: shown.Runs, LeaveOut: earlier, ExceptPaths: unticked, Force: true, Apply: true,
	})
	if err != nil {
		p.tolerate(err)
		return
	}
	p.decided++
	want := maps.Clone(before)
	for _, ch := range shown.Changes {
		switch {
		case slices.Contains(unticked, ch.Path):
		case ch.Change == "deleted" && before[ch.Path] != ch.OldDigest:
			// Work that is left out had made it: the directory has another file there, or none.
		case ch.Change == "deleted":
			delete(want, ch.Path)
		case ch.Type == "file":
			want[ch.Path] = ch.NewDigest
		default:
			delete(want, ch.Path)
		}
	}
	p.listed(name, shown, waiting, all)
	got := p.files()
	for _, set := range []map[string]string{want, got} {
		for path := range set {
			if want[path] != got[path] && !waiting[path] {
				p.Fatalf("step %d in %s: %s was %q, was shown as %q, and is %q\nshown: %+v", p.n, name, path, before[path], want[path], got[path], shown)
			}
		}
	}
}

// listed checks that each entry of the directory that is not as it was, whatever its kind and
// in whatever way, was shown, or is a directory above one.
func (p *promise) listed(name string, shown *api.DiffResult, waiting map[string]bool, before map[string]string) {
	p.Helper()
	known := maps.Clone(waiting)
	for _, ch := range shown.Changes {
		for path := ch.Path; path != "."; path = filepath.Dir(path) {
			known[path] = true
		}
	}
	after := p.entries()
	for _, set := range []map[string]string{before, after} {
		for path := range set {
			if before[path] != after[path] && !known[path] {
				p.Errorf("step %d in %s: %s was not shown, was %q, and is %q\nshown: %+v", p.n, name, path, before[path], after[path], shown)
			}
		}
	}
}

// waiting returns the paths that an apply would write without the decision.
func (p *promise) waiting(name string) (map[string]bool, error) {
	res, err := p.e.Apply(p.ctx, api.ApplyRequest{Cell: name, DryRun: true})
	if api.CodeOf(err) == api.CodePending {
		return map[string]bool{}, nil
	}
	if err != nil {
		return nil, err
	}
	paths := map[string]bool{}
	for _, ch := range res.Written {
		paths[ch.Path], paths[ch.OldPath] = true, true
	}
	return paths, nil
}

// tolerate passes refusals that say that nothing was decided, or not applied.
func (p *promise) tolerate(err error) {
	p.Helper()
	switch api.CodeOf(err) {
	case "", api.CodeNotLast, api.CodeConflict, api.CodeNothing, api.CodeDecided, api.CodePending, api.CodeNotHead, api.CodeNotFound, api.CodeFreed:
	default:
		p.Fatal(err)
	}
}

// files returns the digest of each file of the source directory.
func (p *promise) files() map[string]string {
	p.Helper()
	found := map[string]string{}
	p.ok(filepath.WalkDir(p.source, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(name)
		sum := sha256.Sum256(text)
		rel, _ := filepath.Rel(p.source, name)
		found[rel] = hex.EncodeToString(sum[:])
		return err
	}))
	return found
}

// entries returns kind, rights, and target or contents of everything in the source directory.
func (p *promise) entries() map[string]string {
	p.Helper()
	found := p.files()
	p.ok(filepath.WalkDir(p.source, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == p.source {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target, _ := os.Readlink(name) // else it is no link
		rel, err := filepath.Rel(p.source, name)
		found[rel] = fmt.Sprint(info.Mode(), target, found[rel])
		return err
	}))
	return found
}

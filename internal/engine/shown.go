package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/merge"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// proposal is the undecided work up to a state: what an acceptance of the state decides
// about.
type proposal struct {
	before store.Checkpoint // the state before the oldest work
	work   []home.Work      // the oldest first
	left   map[string]bool  // ids of the work that is left out
	inside map[string]bool  // ids of all runs and states that the state contains
}

// propose returns the undecided work up to a state. It refuses a request that names what
// was shown, if that is not all of it.
func (s *heldCell) propose(chosen, tip string, req api.AcceptRequest) (*proposal, error) {
	p := &proposal{left: map[string]bool{}}
	err := s.e.Store.View(func(tx *store.Tx) (err error) {
		if p.before, p.work, err = home.UndecidedWork(tx, s.Record, tip); err == nil {
			p.inside, err = home.ContainedIDs(tx, s.Record, tip)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, id := range req.LeaveOut {
		p.left[id] = true
	}
	return p, s.checkShown(p, chosen, req)
}

// checkShown refuses a request that does not name all the work that it decides about, or
// that names work which the state does not contain. A request that names none is about
// all of it.
func (s *heldCell) checkShown(p *proposal, chosen string, req api.AcceptRequest) error {
	named := slices.Concat(req.Runs, req.LeaveOut)
	for _, id := range named {
		if !p.inside[id] {
			return api.Refusef(api.CodeNotShown, "`forkcell diff "+s.Record.Name+"` shows what it has now", "%s is not part of the state of %s that is to be accepted", id, s.Record.Name)
		}
	}
	if len(named) == 0 && req.Run == "" {
		return nil
	}
	var unseen []string
	for _, w := range p.work {
		if w.ID != chosen && !slices.Contains(named, w.ID) {
			unseen = append(unseen, w.ID)
		}
	}
	if len(unseen) == 0 {
		return nil
	}
	const shown = 3
	hint := "`forkcell diff " + s.Record.Name + "` shows all that waits, and `forkcell accept " + s.Record.Name + "` accepts it"
	if len(unseen) <= shown {
		hint += "; `forkcell accept " + s.Record.Name + " --run " + chosen + " --leave-out " + strings.Join(unseen, " --leave-out ") + "` accepts the run without it"
	}
	more := ""
	if n := len(unseen) - shown; n > 0 {
		unseen, more = unseen[:shown], fmt.Sprintf(" and %d more", n)
	}
	return api.Refusef(api.CodeNotShown, hint, "%s contains undecided work that the request does not name: %s%s", chosen, strings.Join(unseen, ", "), more)
}

// leaves reports whether an acceptance leaves out work.
func (p *proposal) leaves() bool {
	return slices.ContainsFunc(p.work, func(w home.Work) bool { return p.left[w.ID] })
}

// madePart is a state with the accepted part of a run.
type madePart struct {
	run   store.Run
	state store.Checkpoint
	added bool // the state is new
}

// composition is an accepted part of the work: a chain of states, one for each accepted run
// that changed something. What was captured between runs is part of the next run's.
type composition struct {
	parts []madePart
	head  store.Checkpoint
	// refreshed, if set, is the state before the parts, with the changes of a state of the
	// source.
	refreshed *store.Checkpoint
	source    store.Checkpoint
	// whole are the paths that were changed by work that is left out and by work that is
	// accepted, and which stay as they are.
	whole []string
}

// part makes states that have only the selected part of the work, on top of what a refresh
// brought in meanwhile.
func (s *heldCell) part(ctx context.Context, p *proposal, req api.AcceptRequest) (*composition, error) {
	pick, err := s.acceptedPart(ctx, p.before, req)
	if err != nil {
		return nil, err
	}
	by, err := s.changedBy(ctx, p)
	if err != nil {
		return nil, err
	}
	repos, err := merge.GitDirsOf(s.Cell, p.before, s.Head)
	if err != nil {
		return nil, err
	}
	c := &composition{head: p.before}
	if c.whole, err = by.separate(repos); err != nil {
		return nil, err
	}
	if err := s.withSource(ctx, c, by); err != nil {
		return nil, err
	}
	found := false
	own := map[string]bool{}
	for _, w := range p.work {
		if p.left[w.ID] {
			continue
		}
		maps.Copy(own, by.work[w.ID])
		if w.Run == nil {
			continue
		}
		if w.After().ID == s.Head.ID {
			maps.Copy(own, by.both)
		}
		above := parents(own)
		made, some, err := s.partOf(ctx, c.head, w, func(name string, dir bool) bool {
			return (own[name] || above[name]) && !by.left[name] && pick(name, dir)
		})
		if err != nil {
			return nil, err
		}
		found = found || some
		c.parts = append(c.parts, madePart{*w.Run, made, made.ID != c.head.ID})
		c.head, own = made, map[string]bool{}
	}
	if !found && req.Selects() {
		return nil, api.Refusef(api.CodeNothing, "`forkcell diff "+s.Record.Name+" --name-status` shows the changes",
			"no change matches the patterns")
	}
	return c, nil
}

// parents returns the directories that paths are in.
func parents(paths map[string]bool) map[string]bool {
	above := map[string]bool{}
	for name := range paths {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			above[dir] = true
		}
	}
	return above
}

// withSource adds what refreshes brought in since the state before the work.
func (s *heldCell) withSource(ctx context.Context, c *composition, by *changedPaths) error {
	if by.merged == "" {
		return nil
	}
	source, err := s.State(by.merged)
	if err != nil {
		return err
	}
	above := parents(by.source)
	edits, err := merge.Part(ctx, s.Cell, c.head, source, func(name string, dir bool) bool { return by.source[name] || dir && above[name] }, apply.Fail)
	if err != nil || len(edits) == 0 {
		return err
	}
	sealed, err := s.e.Workspace.Compose(ctx, s.At, c.head.Layer, store.NewID("op"), edits)
	if err != nil {
		return fmt.Errorf("compose the refreshed state: %w", err)
	}
	if sealed.Unchanged {
		return nil
	}
	refreshed := s.e.NewCheckpoint(s.Record, c.head.ID, kindRefresh, "", sealed)
	refreshed.Source = source.ID
	c.head, c.refreshed, c.source = refreshed, &refreshed, source
	return nil
}

// partOf makes a state that adds the selected part of some work to another state. It
// reports whether something was selected.
func (s *heldCell) partOf(ctx context.Context, on store.Checkpoint, w home.Work, selects func(string, bool) bool) (store.Checkpoint, bool, error) {
	edits, err := merge.Part(ctx, s.Cell, on, w.After(), selects, apply.Fail)
	if err != nil || len(edits) == 0 {
		return on, false, err
	}
	sealed, err := s.e.Workspace.Compose(ctx, s.At, on.Layer, store.NewID("op"), edits)
	if err != nil {
		return on, false, fmt.Errorf("compose the accepted part: %w", err)
	}
	if sealed.Unchanged {
		return on, true, nil
	}
	return s.e.NewCheckpoint(s.Record, on.ID, statements.PartialState, w.ID, sealed), true, nil
}

// changedPaths are the paths that different steps of a history changed.
type changedPaths struct {
	left, kept map[string]bool            // by work that is left out, and by other work
	both       map[string]bool            // by both, after separate
	work       map[string]map[string]bool // by each piece of work
	source     map[string]bool            // by a refresh
	merged     string                     // the newest state of the source among them
}

// changedBy returns the paths that the steps since the state before the work changed.
func (s *heldCell) changedBy(ctx context.Context, p *proposal) (*changedPaths, error) {
	var line []store.Checkpoint
	err := s.e.Store.View(func(tx *store.Tx) (err error) {
		line, err = tx.Lineage(s.Head.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	by := &changedPaths{left: map[string]bool{}, kept: map[string]bool{}, both: map[string]bool{}, work: map[string]map[string]bool{}, source: map[string]bool{}}
	made := map[string]map[string]bool{} // by the state that a step made
	for _, w := range p.work {
		by.work[w.ID] = map[string]bool{}
		for _, state := range w.States {
			made[state.ID] = by.work[w.ID]
		}
	}
	for i := 0; i+1 < len(line) && line[i].ID != p.before.ID; i++ {
		set := made[line[i].ID]
		if set == nil {
			set, by.merged = by.source, cmp.Or(by.merged, line[i].Source)
		}
		if err := s.Home.AddChanged(ctx, s.Record, line[i+1], line[i], set); err != nil {
			return nil, err
		}
	}
	for _, w := range p.work {
		if p.left[w.ID] {
			maps.Copy(by.left, by.work[w.ID])
		} else {
			maps.Copy(by.kept, by.work[w.ID])
		}
	}
	return by, nil
}

// separate removes from left what others changed as well, and the directories that they
// need. It returns the paths that both changed. A repository is one path.
func (by *changedPaths) separate(repos *secretfiles.GitDirs) (whole []string, err error) {
	repositories, needed := map[string]bool{}, map[string]bool{}
	for _, set := range []map[string]bool{by.kept, by.source} {
		for name := range set {
			needed[name] = true
			repo, err := repos.Of(name)
			if err != nil {
				return nil, err
			}
			if repo != "" {
				repositories[repo] = true
			}
		}
	}
	shared := map[string]bool{}
	for name := range by.left {
		repo, err := repos.Of(name)
		switch {
		case err != nil:
			return nil, err
		case repo != "" && repositories[repo]:
			shared[repo] = true
		case needed[name]:
			shared[name] = true
		default:
			continue
		}
		delete(by.left, name)
		by.both[name] = true
	}
	for dir := range parents(needed) {
		delete(by.left, dir)
	}
	return slices.Sorted(maps.Keys(shared)), nil
}

package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Switch rewrites the live directory of a delta cell from one state, which it must
// have, to another. It touches only what differs, all of it or nothing, and never
// what the rules leave out. With the other backends there is nothing to rewrite.
// After a crash ResumeSwitch reports which of the two states the directory has;
// when the caller has recorded it, ForgetSwitch ends the switch.
func (s *Store) Switch(ctx context.Context, c Cell, from, to, op string) error {
	b, err := s.backend(c.Backend)
	if err == nil {
		err = b.switchLive(ctx, c, from, to, op)
	}
	if err != nil {
		return fmt.Errorf("switch to %s: %w", to, err)
	}
	return nil
}

// CheckSwitch returns the reason why a switch is impossible, without touching
// anything: a *tree.LongPathError means that the states differ in paths that are
// too long for a journal.
func (s *Store) CheckSwitch(c Cell, from, to string) error {
	b, err := s.backend(c.Backend)
	if err != nil {
		return err
	}
	return b.checkSwitch(from, to)
}

func (b deltaBackend) checkSwitch(from, to string) error {
	was, now, err := b.twoStates(from, to)
	if err != nil {
		return err
	}
	return tree.DiffFunc(was, now, tree.DiffOptions{MTimes: true}, func(c tree.Change) error { return tree.CheckLength(c.Path) })
}

// twoStates loads the workspaces of two states.
func (b deltaBackend) twoStates(from, to string) (was, now *tree.Tree, err error) {
	if was, err = b.s.area(from, AreaWorkspace); err != nil {
		return nil, nil, err
	}
	now, err = b.s.area(to, AreaWorkspace)
	return was, now, err
}

func (b deltaBackend) switchLive(ctx context.Context, c Cell, from, to, op string) error {
	s := b.s
	if _, _, err := s.usable(c, to); err != nil {
		return err
	}
	was, now, err := b.twoStates(from, to)
	if err != nil {
		return err
	}
	plan, err := switchPlan(was, now)
	if err != nil {
		return err
	}
	plan.ID, plan.Target, plan.Owners = op, c.Live, s.opt.Root
	if len(plan.Ops) == 0 {
		return nil
	}
	journal, err := s.newJournal(op)
	if err != nil {
		return err
	}
	defer journal.Close()
	filter := keepOnly(c.Rules, c.Kept)
	_, err = apply.Execute(ctx, plan, objectSource{s}, journal, apply.Options{
		KeepDirTimes: true,
		Keep: func(path string, isDir bool) bool {
			if filter == nil {
				return false
			}
			_, v := filter.Decide(path, isDir)
			return v == secretfiles.Leave
		},
	})
	return err
}

// switchPlan lists everything that differs between two states, including times and
// hard links.
func switchPlan(a, b *tree.Tree) (apply.Plan, error) {
	changes, err := tree.Diff(a, b, tree.DiffOptions{MTimes: true})
	if err != nil {
		return apply.Plan{}, err
	}
	var plan apply.Plan
	listed := make(map[string]struct{}, len(changes))
	for _, c := range changes {
		plan.Ops = append(plan.Ops, apply.Op{Path: c.Path, Old: c.Old, New: c.New})
		listed[c.Path] = struct{}{}
	}
	was, err := a.Links()
	if err != nil {
		return apply.Plan{}, err
	}
	now, err := b.Links()
	if err != nil {
		return apply.Plan{}, err
	}
	relinked := append(missingGroups(was, now), missingGroups(now, was)...)
	for _, g := range relinked {
		for _, path := range g {
			if _, ok := listed[path]; ok {
				continue
			}
			listed[path] = struct{}{}
			op := apply.Op{Path: path}
			if op.Old, err = lookup(a, path); err != nil {
				return apply.Plan{}, err
			}
			if op.New, err = lookup(b, path); err != nil {
				return apply.Plan{}, err
			}
			plan.Ops = append(plan.Ops, op)
		}
	}
	for _, g := range now.Groups {
		if slices.ContainsFunc(g, func(p string) bool { _, ok := listed[p]; return ok }) {
			plan.Links = append(plan.Links, g)
		}
	}
	return plan, nil
}

// missingGroups returns the groups of a that b does not have.
func missingGroups(a, b tree.Links) [][]string {
	have := make(map[string][]string, len(b.Groups))
	for _, g := range b.Groups {
		have[g[0]] = g
	}
	var out [][]string
	for _, g := range a.Groups {
		if !slices.Equal(g, have[g[0]]) {
			out = append(out, g)
		}
	}
	return out
}

func lookup(t *tree.Tree, path string) (*tree.Entry, error) {
	e, ok, err := t.Lookup(path)
	if err != nil || !ok {
		return nil, err
	}
	return &e, nil
}

// objectSource opens contents for an apply.
type objectSource struct{ s *Store }

func (o objectSource) Open(_ string, e tree.Entry) (io.ReadCloser, error) {
	f, err := o.s.openObject(e.Digest)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// newJournal makes the directory of an apply's journal, durably.
func (s *Store) newJournal(op string) (*fsx.Dir, error) {
	if err := checkID("operation", op); err != nil {
		return nil, err
	}
	if err := s.ensure("applies"); err != nil {
		return nil, err
	}
	if err := s.home.Mkdir("applies/"+op, 0o700); err != nil {
		return nil, err
	}
	parent, err := s.home.OpenDir("applies")
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	if err := errors.Join(parent.Sync(), s.home.Sync()); err != nil {
		return nil, err
	}
	return parent.OpenDir(op)
}

// ResumeSwitch finishes or undoes a switch after a crash. done reports whether the
// directory has the new state; otherwise it has the old one.
func (s *Store) ResumeSwitch(ctx context.Context, c Cell, op string) (done bool, err error) {
	if err := checkID("operation", op); err != nil {
		return false, err
	}
	journal, err := s.home.OpenDir("applies/" + op)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("resume switch %s: %w", op, err)
	}
	defer journal.Close()
	back, err := apply.Recover(ctx, c.Live, journal)
	if err != nil {
		return false, fmt.Errorf("resume switch %s: %w", op, err)
	}
	return !back, nil
}

// ForgetSwitch removes what a switch kept of the old state. By then the caller has
// recorded which state the directory has.
func (s *Store) ForgetSwitch(op string) error {
	if err := checkID("operation", op); err != nil {
		return err
	}
	return s.trash("applies/"+op, "switch_"+op)
}

// ForkLive makes the live directory of a new delta cell at LivePath, with the
// contents of a state. The directory is durable when the call returns. After a
// crash it is complete or absent.
func (s *Store) ForkLive(ctx context.Context, c Cell, layer string) error {
	b, err := s.backend(c.Backend)
	if err == nil {
		err = b.forkLive(ctx, c, layer)
	}
	if err != nil {
		return fmt.Errorf("fork %s: %w", layer, err)
	}
	return nil
}

func (b deltaBackend) forkLive(ctx context.Context, c Cell, layer string) error {
	s := b.s
	if err := checkID("cell", c.ID); err != nil {
		return err
	}
	if err := errors.Join(s.ensure("live"), s.ensure("pending")); err != nil {
		return err
	}
	temp := "pending/" + trashPrefix + "live_" + c.ID
	if err := s.home.RemoveAll(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := s.home.Mkdir(temp, 0o700); err != nil {
		return err
	}
	holder, err := s.home.OpenDir(temp)
	if err != nil {
		return err
	}
	defer holder.Close()
	err = b.fillLive(ctx, layer, holder)
	if err == nil {
		err = s.syncFS()
	}
	if err == nil {
		err = s.home.Rename(temp, s.home, "live/"+c.ID, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		return errors.Join(err, s.home.RemoveAll(temp))
	}
	live, err := s.home.OpenDir("live")
	if err != nil {
		return err
	}
	defer live.Close()
	return errors.Join(live.Sync(), s.home.Sync())
}

func (b deltaBackend) fillLive(ctx context.Context, layer string, holder *fsx.Dir) error {
	d, err := plainDir(holder, AreaWorkspace)
	if err != nil {
		return err
	}
	defer d.Close()
	return b.s.materialiseArea(ctx, b, layer, AreaWorkspace, d, MaterialiseOptions{Owners: b.s.opt.Root})
}

// LivePath returns where ForkLive puts a cell's live directory.
func (s *Store) LivePath(cellID string) string {
	return s.path + "/live/" + cellID + "/" + AreaWorkspace
}

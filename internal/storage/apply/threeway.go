package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// OnConflict decides about paths that both sides changed differently.
type OnConflict string

// The ways out of a conflict. The empty value is Fail.
const (
	Fail   OnConflict = "fail"
	Ours   OnConflict = "ours"   // keep what is in the directory
	Theirs OnConflict = "theirs" // take the cell's
)

// ThreeWayOptions change how two sides are merged.
type ThreeWayOptions struct {
	OnConflict OnConflict
	// Owners compares owners too.
	Owners bool
	// Times compares times of modification too.
	Times bool
	// Plain, if set, returns the part of an entry that counts.
	Plain func(tree.Entry) tree.Entry
	// Only selects the paths that are considered at all; nil selects all.
	Only func(path string, isDir bool) bool
	// LeftOut matches paths that never went into the cell. They are never
	// written, moved or removed, and something new of the cell at such a path is
	// a conflict that Theirs does not resolve.
	LeftOut func(path string, isDir bool) bool
	// Meaning, if set, returns the meaning of a file of one side, if that is not
	// its bytes. Files with the same meaning are the same.
	Meaning func(side Side, path string) (says tree.Hash, ok bool, err error)
	// Open, if set, opens a file of one side, so that large files whose digests are
	// of different versions can be compared. Without it they count as different.
	Open func(side Side, path string, e tree.Entry) (*os.File, error)
	// Names lists a directory of ours, so that what the cell never saw is not
	// removed with its directory. Without it that is found out by Execute.
	Names func(path string) ([]string, error)
	// Undo means that an apply is undone: base is what it wrote, theirs what was
	// there before. The reasons of conflicts say so.
	Undo bool
	// Refresh means that ours is the cell, and theirs the directory. The reasons of
	// conflicts say so.
	Refresh bool
}

// Side is one of the three that are compared.
type Side int

// The sides.
const (
	BaseSide Side = iota
	TheirSide
	OurSide
)

// View looks up what one side has at a path; nil is nothing.
type View func(path string) (*tree.Entry, error)

// Choice is a conflict that OnConflict resolved.
type Choice struct {
	Path   string
	Took   OnConflict
	Reason string
}

// ThreeWay decides which of the changes from base to theirs are to be made in
// ours, path by path. What ours holds already is listed, not changed. A path
// that ours changed too, and differently, is a conflict; so is something new in
// a directory that ours lost, and the removal of a directory in which ours has
// something that base did not know. With conflicts the Ops are not to be
// executed. All results are sorted by path.
func ThreeWay(ctx context.Context, base, theirs *tree.Tree, ours View, opt ThreeWayOptions) (
	ops []Op, already []string, conflicts []Conflict, chosen []Choice, err error,
) {
	changes, err := tree.Diff(base, theirs, tree.DiffOptions{MTimes: opt.Times, SameBytes: func(path string, old, now tree.Entry) (bool, error) {
		return opt.sameBytes(ctx, path, BaseSide, old, TheirSide, now)
	}})
	if err != nil {
		return nil, nil, nil, nil, err
	}
	return merge(ctx, changes, Lookup(base), Lookup(theirs), ours, opt)
}

// merge is ThreeWay for changes that are known, each path once and parents first.
func merge(ctx context.Context, changes []tree.Change, base, theirs, ours View, opt ThreeWayOptions) (
	ops []Op, already []string, conflicts []Conflict, chosen []Choice, err error,
) {
	m := &merger{
		ctx: ctx, base: base, theirs: theirs, probe: ours, opt: opt,
		memo: map[string]*tree.Entry{}, plan: map[string]Op{}, stays: map[string]bool{}, blocked: map[string]bool{},
	}
	var leaving []tree.Change // directories that go away: when all below them is decided
	for _, c := range changes {
		if isDir(c.Old) && !isDir(c.New) {
			leaving = append(leaving, c)
			continue
		}
		if err := m.path(c.Path, c.Old, c.New); err != nil {
			return nil, nil, nil, nil, err
		}
	}
	for _, c := range slices.Backward(leaving) {
		if err := m.leave(c.Path, c.Old, c.New); err != nil {
			return nil, nil, nil, nil, err
		}
	}
	for _, op := range m.plan {
		ops = append(ops, op)
	}
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Compare(a.Path, b.Path) })
	slices.Sort(m.already)
	slices.SortFunc(m.conflicts, func(a, b Conflict) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(m.chosen, func(a, b Choice) int { return cmp.Compare(a.Path, b.Path) })
	return ops, m.already, m.conflicts, m.chosen, nil
}

type merger struct {
	ctx          context.Context //nolint:containedctx // lives as long as the one call
	base, theirs View
	probe        View
	opt          ThreeWayOptions

	memo      map[string]*tree.Entry
	plan      map[string]Op
	stays     map[string]bool // decided, and not removed
	blocked   map[string]bool // theirs is a directory that ours will not have
	already   []string
	conflicts []Conflict
	chosen    []Choice
}

func (m *merger) ours(path string) (*tree.Entry, error) {
	if e, known := m.memo[path]; known {
		return e, nil
	}
	e, err := m.probe(path)
	if err == nil {
		m.memo[path] = e
	}
	return e, err
}

func (m *merger) leftOut(path string, isDir bool) bool {
	return m.opt.LeftOut != nil && m.opt.LeftOut(path, isDir)
}

// plain returns the parts of two entries that count.
func (m *merger) plain(a, b *tree.Entry) (x, y *tree.Entry) {
	if m.opt.Plain == nil || a == nil || b == nil {
		return a, b
	}
	p, q := m.opt.Plain(*a), m.opt.Plain(*b)
	return &p, &q
}

func (m *merger) equal(a, b *tree.Entry) bool {
	a, b = m.plain(a, b)
	if m.opt.Times && a != nil && b != nil && a.MTime != b.MTime {
		return false
	}
	return Equal(a, b, m.opt.Owners)
}

// needsNoDecision reports whether a change needs no decision: it is not selected, concerns
// something that stays out, or depends on a conflict above it.
func (m *merger) needsNoDecision(path string, old, now *tree.Entry) (bool, error) {
	if m.opt.Only != nil && !m.opt.Only(path, isDir(now) || now == nil && isDir(old)) {
		m.stays[path] = true
		return true, nil
	}
	for p := path; p != "."; {
		p = parentOf(p)
		if m.blocked[p] {
			m.stays[path] = true
			return true, nil
		}
	}
	if !m.leftOut(path, isDir(now) || now == nil && isDir(old)) {
		return false, nil
	}
	m.stays[path] = true
	if now == nil {
		return true, nil
	}
	err := m.refuse(path, now, "is a path that the rules leave out; nothing of the cell may take its place")
	m.blocked[path] = isDir(now)
	return true, err
}

// path decides a change that removes no directory.
func (m *merger) path(path string, old, now *tree.Entry) error {
	if done, err := m.needsNoDecision(path, old, now); done || err != nil {
		return err
	}
	have, err := m.ours(path)
	if err != nil {
		return err
	}
	unchanged, err := m.isSame(path, BaseSide, old, TheirSide, now)
	if err != nil || unchanged {
		m.stays[path] = true
		return err
	}
	already, err := m.isSame(path, OurSide, have, TheirSide, now)
	if err != nil {
		return err
	}
	if already {
		m.already = append(m.already, path)
		m.stays[path] = true
		return nil
	}
	untouched, err := m.isSame(path, OurSide, have, BaseSide, old)
	if err != nil {
		return err
	}
	if untouched {
		return m.take(path, now)
	}
	return m.collide(path, now, m.reason(old, have, now))
}

// isSame reports whether two sides have the same at a path, or files that say the
// same.
func (m *merger) isSame(path string, one Side, a *tree.Entry, other Side, b *tree.Entry) (bool, error) {
	if m.equal(a, b) {
		return true, nil
	}
	if a != nil && b != nil {
		x := *a
		x.Digest = b.Digest
		if m.equal(&x, b) {
			if same, err := m.opt.sameBytes(m.ctx, path, one, *a, other, *b); same || err != nil {
				return same, err
			}
		}
	}
	if m.opt.Meaning == nil || a == nil || b == nil || a.Kind != tree.KindFile || b.Kind != tree.KindFile {
		return false, nil
	}
	x := *a
	x.Digest, x.Size, x.MTime = b.Digest, b.Size, b.MTime
	if !m.equal(&x, b) {
		return false, nil
	}
	says, ok, err := m.opt.Meaning(one, path)
	if !ok || err != nil {
		return false, err
	}
	too, ok, err := m.opt.Meaning(other, path)
	return ok && says == too, err
}

// sameBytes compares two large files whose digests are of different versions: the
// bytes of the one are hashed as the other's were.
func (o *ThreeWayOptions) sameBytes(ctx context.Context, path string, one Side, a tree.Entry, other Side, b tree.Entry) (bool, error) {
	if o.Open == nil || a.PlainDigest == b.PlainDigest || a.Kind != tree.KindFile || b.Kind != tree.KindFile || a.Size != b.Size {
		return false, nil
	}
	if b.PlainDigest {
		a, other, b = b, one, a
	}
	f, err := o.Open(other, path, b)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	h := tree.NewContent()
	h.Reset(a.Size, &a)
	if _, err := fsx.ReadSparse(ctx, f, h); err != nil {
		return false, err
	}
	digest, plain, err := h.Sum(&a)
	if errors.Is(err, tree.ErrSize) {
		return false, nil
	}
	return plain && digest == a.Digest, err
}

// take plans a change, with the directories that it needs.
func (m *merger) take(path string, now *tree.Entry) error {
	if now != nil {
		ready, err := m.parents(path, now, false)
		if !ready || err != nil {
			return err
		}
	}
	return m.put(path, now)
}

// put plans that a path becomes what theirs has.
func (m *merger) put(path string, now *tree.Entry) error {
	have, err := m.ours(path)
	if err != nil {
		return err
	}
	m.plan[path] = Op{Path: path, Old: have, New: now}
	return nil
}

// parents sees to it that the directory of a new thing exists. One that theirs
// has added is added even if it was not selected; one that ours lost is a
// conflict, unless it is forced.
func (m *merger) parents(path string, now *tree.Entry, force bool) (ready bool, err error) {
	var missing []string
	for p := parentOf(path); p != "."; p = parentOf(p) {
		if op, planned := m.plan[p]; planned && isDir(op.New) {
			break
		}
		have, err := m.ours(p)
		if err != nil {
			return false, err
		}
		if isDir(have) {
			break
		}
		missing = append(missing, p)
	}
	for _, p := range slices.Backward(missing) {
		was, err := m.base(p)
		if err != nil {
			return false, err
		}
		have, err := m.ours(p)
		if err != nil {
			return false, err
		}
		if m.leftOut(p, true) {
			return false, m.refuse(path, now, fmt.Sprintf("belongs in %q, which the rules leave out", p))
		}
		untouched := m.equal(have, was)
		if !force && !untouched {
			return false, m.collide(path, now, fmt.Sprintf("belongs in the directory %q, which is gone", p))
		}
		is, err := m.theirs(p)
		if err != nil || is == nil {
			return false, fmt.Errorf("look up %q: %w", p, cmp.Or(err, errPlan))
		}
		m.plan[p] = Op{Path: p, Old: have, New: is}
	}
	return true, nil
}

// refuse is a conflict in which theirs cannot be taken.
func (m *merger) refuse(path string, now *tree.Entry, why string) error {
	if m.opt.OnConflict == Ours {
		m.chosen = append(m.chosen, Choice{path, Ours, why})
	} else {
		m.conflicts = append(m.conflicts, Conflict{Path: path, Reason: why})
	}
	return m.stay(path, now)
}

// collide is a conflict that OnConflict may resolve either way.
func (m *merger) collide(path string, now *tree.Entry, why string) error {
	if m.opt.OnConflict == Theirs {
		return m.force(path, now, why)
	}
	err := m.refuse(path, now, why)
	if n := len(m.conflicts); m.opt.OnConflict == Fail {
		m.conflicts[n-1].Forcible = true
	}
	return err
}

func (m *merger) stay(path string, now *tree.Entry) error {
	have, err := m.ours(path)
	m.stays[path] = true
	m.blocked[path] = isDir(now) && !isDir(have)
	return err
}

// force takes theirs, and displaces whatever ours has there.
func (m *merger) force(path string, now *tree.Entry, why string) error {
	have, err := m.ours(path)
	if err != nil {
		return err
	}
	if isDir(have) && !isDir(now) {
		kept, err := m.empty(path, now != nil)
		if err != nil {
			return err
		}
		if kept != "" {
			return m.refuse(path, now, fmt.Sprintf("holds %q, which stays", kept))
		}
	}
	if now != nil {
		if ready, err := m.parents(path, now, true); !ready || err != nil {
			return err
		}
	}
	m.chosen = append(m.chosen, Choice{path, Theirs, why})
	return m.put(path, now)
}

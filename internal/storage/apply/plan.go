package apply

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// planner turns Ops into units: exchanges of single names, each of which may
// carry a whole directory.
type planner struct {
	s      *writing
	rec    *record
	dev    uint64 // of the target
	mount  uint64
	seen   map[string]bool // parents that were looked at
	units  []int           // indices of Ops
	gone   map[int]bool    // Ops that are not carried out, since a directory stays
	within []int           // Ops that go with a directory
	found  map[int]bool    // those of them that are there
	report *Report
}

// preparePlan checks a plan against the target, as far as that can be done without
// reading contents, and fills s.rec.
func (s *writing) preparePlan(p Plan, report *Report) error {
	ops, err := sortOps(p.Ops)
	if err != nil {
		return err
	}
	pl := &planner{s: s, rec: s.rec, seen: map[string]bool{}, gone: map[int]bool{}, found: map[int]bool{}, report: report}
	for _, op := range ops {
		s.rec.Ops = append(s.rec.Ops, lineOf(op))
	}
	if err := s.rec.prepare(); err != nil {
		return fmt.Errorf("%w: %w", errPlan, err)
	}
	if pl.mount, err = s.root.MountID("."); err != nil {
		return err
	}
	pl.dev = s.rec.Intent.Dev
	for i := range ops {
		if err := pl.place(i); err != nil {
			return err
		}
	}
	for _, i := range pl.within {
		if !pl.found[i] {
			return conflict(ops[i].Path, "is gone")
		}
	}
	pl.settle()
	report.Applied = len(s.rec.Ops)
	return nil
}

func sortOps(in []Op) ([]Op, error) {
	ops := make([]Op, 0, len(in))
	for _, op := range in {
		if err := fsx.CheckPath(op.Path); err != nil {
			return nil, fmt.Errorf("%w: path %q: %w", errPlan, op.Path, err)
		}
		if strings.HasPrefix(op.Path, stagingPrefix) {
			return nil, fmt.Errorf("%q: names that begin with %s are reserved for forkcell and cannot be applied", op.Path, stagingPrefix)
		}
		if op.Path == "." && (!isDir(op.Old) || !isDir(op.New)) {
			return nil, fmt.Errorf("%w: the root must stay a directory", errPlan)
		}
		if op.Old != nil || op.New != nil {
			ops = append(ops, op)
		}
	}
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Compare(a.Path, b.Path) })
	for i := 1; i < len(ops); i++ {
		if ops[i].Path == ops[i-1].Path {
			return nil, fmt.Errorf("%w: %q is there twice", errPlan, ops[i].Path)
		}
	}
	return ops, nil
}

// place decides how one Op is carried out.
func (pl *planner) place(i int) error {
	op := pl.rec.Ops[i].op
	inside, err := pl.isInside(op)
	if inside && op.New == nil {
		pl.within = append(pl.within, i)
	}
	if inside || err != nil {
		return err
	}
	if err := pl.parent(op.Path); err != nil {
		return err
	}
	if err := pl.expect(op); err != nil {
		return err
	}
	switch {
	case isDir(op.Old) && isDir(op.New):
		pl.rec.Metas = append(pl.rec.Metas, i)
		return nil
	case isDir(op.Old):
		return pl.removal(i)
	}
	pl.units = append(pl.units, i)
	return nil
}

// isInside reports whether an Op is part of a directory that is moved as a whole.
func (pl *planner) isInside(op Op) (bool, error) {
	for p := op.Path; p != "."; {
		p = parentOf(p)
		at, ok := pl.rec.index[p]
		if !ok {
			continue
		}
		above := pl.rec.Ops[at].op
		switch {
		case isDir(above.Old) && isDir(above.New):
			continue
		case isDir(above.Old) && op.New == nil, isDir(above.New) && op.Old == nil:
			return true, nil
		}
		return false, fmt.Errorf("%w: %q is below %q", errPlan, op.Path, above.Path)
	}
	return false, nil
}

// expect compares one name with what the plan expects, without its contents:
// those are checked when it comes out.
func (pl *planner) expect(op Op) error {
	now, err := ProbeMetadata(pl.s.root, op.Path)
	if err != nil {
		return err
	}
	switch {
	case op.Old == nil && now != nil:
		return conflict(op.Path, "is there already")
	case op.Old != nil && now == nil:
		return conflict(op.Path, "is gone")
	case op.Old != nil && !similar(op.Old, now, pl.rec.Owners):
		now.Digest = op.Old.Digest // it was not read
		return conflict(op.Path, "has changed"+differences(op.Old, now, thenAndNow, pl.rec.Owners))
	case now != nil && now.Stamp.Dev != pl.dev:
		return fmt.Errorf("change %q: %w", op.Path, errMount)
	}
	return nil
}

// parent looks at the directory in which a name changes.
func (pl *planner) parent(path string) error {
	dir := parentOf(path)
	if path == "." || pl.seen[dir] {
		return nil
	}
	pl.seen[dir] = true
	info, err := pl.s.root.Lstat(dir)
	if absent(err) || err == nil && !info.IsDir() {
		return conflict(dir, "is not a directory any more")
	}
	if err != nil {
		return err
	}
	if err := pl.sameMount(dir, info); err != nil {
		return err
	}
	if dir == "." { // the intent has it
		return nil
	}
	pl.rec.Times = append(pl.rec.Times, dirTime{[]byte(dir), info.MTime})
	if pl.s.user && info.Mode&0o300 != 0o300 {
		pl.rec.Modes = append(pl.rec.Modes, dirMode{[]byte(dir), info.Mode})
	}
	return nil
}

func (pl *planner) sameMount(dir string, info fsx.Info) error {
	id, err := pl.s.root.MountID(dir)
	if err != nil {
		return err
	}
	if id != pl.mount || info.Dev != pl.dev {
		return fmt.Errorf("change what is in %q: %w", dir, errMount)
	}
	return nil
}

// removal lists a directory that is removed or replaced.
// It goes as a whole if it holds only what the plan removes too; if it holds
// kept things it stays, and the rest goes piece by piece.
func (pl *planner) removal(i int) error {
	before := len(pl.units)
	kept, err := pl.pieces(i)
	if err != nil {
		return err
	}
	if !kept {
		pl.units = append(pl.units[:before], i)
		return nil
	}
	if op := pl.rec.Ops[i].op; op.New != nil {
		return conflict(op.Path, "holds files that the rules leave out")
	}
	return nil
}

// pieces appends the units by which the contents of a directory go away, and
// reports whether the directory itself must stay.
func (pl *planner) pieces(i int) (kept bool, err error) {
	path := pl.rec.Ops[i].op.Path
	names, err := pl.list(path)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		child := under(path, name)
		info, err := pl.s.root.Lstat(child)
		if err != nil {
			return false, err
		}
		if pl.s.opt.keep(child, info.IsDir()) {
			kept = true
			continue
		}
		at, known := pl.rec.index[child]
		if !known || pl.rec.Ops[at].op.Old == nil {
			return false, conflict(child, "is in a directory that would be removed, and would be lost")
		}
		pl.found[at] = true
		if err := pl.expect(pl.rec.Ops[at].op); err != nil {
			return false, err
		}
		below, mark := false, len(pl.units)
		if info.IsDir() {
			if below, err = pl.pieces(at); err != nil {
				return false, err
			}
		}
		if below {
			kept = true
		} else {
			pl.units = append(pl.units[:mark], at)
		}
	}
	if kept {
		pl.gone[i] = true
		pl.report.Kept = append(pl.report.Kept, path)
		err = pl.parent(under(path, "x")) // names in it change after all
	}
	return kept, err
}

func (pl *planner) list(path string) ([]string, error) {
	d, err := pl.s.root.OpenDir(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	info, err := d.Lstat(".")
	if err != nil {
		return nil, err
	}
	if err := pl.sameMount(path, info); err != nil {
		return nil, err
	}
	return d.Names()
}

// settle drops the Ops of directories that stay and numbers the units:
// removals first, the deepest first, then the others.
func (pl *planner) settle() {
	r := pl.rec
	moved := make(map[int]int, len(r.Ops))
	var ops []opLine
	for i, l := range r.Ops {
		if !pl.gone[i] {
			moved[i] = len(ops)
			ops = append(ops, l)
		}
	}
	removes := func(i int) bool { return r.Ops[i].op.New == nil }
	slices.SortFunc(pl.units, func(a, b int) int {
		switch {
		case removes(a) != removes(b):
			if removes(a) {
				return -1
			}
			return 1
		case removes(a):
			return cmp.Compare(b, a)
		}
		return cmp.Compare(a, b)
	})
	for n, i := range pl.units {
		r.Units = append(r.Units, unit{Op: moved[i], Slot: strconv.Itoa(n)})
	}
	for n, i := range r.Metas {
		r.Metas[n] = moved[i]
	}
	slices.Reverse(r.Metas) // the deepest first
	r.Ops = ops
	r.index = make(map[string]int, len(ops))
	for i, l := range ops {
		r.index[l.op.Path] = i
	}
	slices.Sort(pl.report.Kept)
}

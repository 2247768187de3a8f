package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Inverse makes the plan that takes a committed apply back, and the source of
// what that apply displaced. The caller gives the plan an ID; journal must stay
// open while it is executed. Executing it refuses, as any plan, to overwrite
// what is newer.
func Inverse(journal *fsx.Dir) (Plan, Source, error) {
	ended, err := has(journal, finishedFile)
	if err != nil {
		return Plan{}, nil, err
	}
	if !ended {
		return Plan{}, nil, fmt.Errorf("%w: the apply did not finish", errJournal)
	}
	rec, err := readRecord(journal)
	if err != nil {
		return Plan{}, nil, err
	}
	src := &displacedSource{dir: journal, slots: map[string]string{}, shared: map[string]bool{}}
	for _, u := range rec.Units {
		if op := rec.op(u); op.Old != nil {
			src.slots[op.Path] = u.Slot
		}
	}
	p := Plan{Target: string(rec.Intent.Target), Owners: rec.Owners}
	files := map[uint64][]string{} // inode to the displaced names
	names := map[uint64]uint64{}   // inode to the number of all its names
	for i := range rec.Ops {
		op := rec.Ops[i].op
		back := Op{Path: op.Path, Old: op.New, New: op.Old}
		if op.Old != nil && !(isDir(op.Old) && isDir(op.New)) {
			info, err := journal.Lstat(src.at(op.Path))
			if err != nil {
				return Plan{}, nil, fmt.Errorf("%w: what was at %q: %w", errJournal, op.Path, err)
			}
			e := *op.Old
			e.MTime = info.MTime
			back.New = &e
			if !isDir(op.Old) && info.Nlink > 1 {
				files[info.Ino] = append(files[info.Ino], op.Path)
				names[info.Ino] = info.Nlink
			}
		}
		p.Ops = append(p.Ops, back)
	}
	for ino, paths := range files {
		if uint64(len(paths)) == names[ino] {
			p.Links = append(p.Links, paths)
			continue
		}
		for _, path := range paths { // one more name of it is still in use
			src.shared[path] = true
		}
	}
	slices.SortFunc(p.Links, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	return p, src, nil
}

// IsOver reports whether a journal is of no further use, once the
// apply will not be taken back: it came to its end, and what others had put in
// its way was not moved here.
func IsOver(journal *fsx.Dir) (bool, error) {
	names, err := journal.Names()
	if err != nil {
		return false, err
	}
	if slices.Contains(names, foreignDir) {
		return false, nil
	}
	begun := slices.Contains(names, intentFile)
	return !begun || slices.Contains(names, finishedFile) || slices.Contains(names, undoneFile), nil
}

// displacedSource is the source of what an apply displaced.
type displacedSource struct {
	dir    *fsx.Dir
	slots  map[string]string // path of a unit to its slot
	shared map[string]bool   // files that have a name in the target still
}

// at is where a path is kept now.
func (s *displacedSource) at(path string) string {
	for p := path; ; p = parentOf(p) {
		if slot, ok := s.slots[p]; ok {
			return oldDir + "/" + slot + path[len(p):]
		}
		if p == "." {
			return oldDir + "/" + path
		}
	}
}

func (s *displacedSource) Open(path string, _ tree.Entry) (io.ReadCloser, error) {
	return s.dir.OpenFile(s.at(path))
}

// Link restores a file as the same file, so that it is again one with its
// other names.
func (s *displacedSource) Link(ctx context.Context, path string, e tree.Entry, to *fsx.Dir, rel string) (bool, error) {
	if !s.shared[path] {
		return false, nil
	}
	now, err := Probe(ctx, s.dir, s.at(path), &e)
	if err != nil {
		return false, err
	}
	if !Equal(now, &e, false) {
		return false, errContents
	}
	err = s.dir.LinkTo(s.at(path), to, rel)
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EPERM) {
		return false, nil
	}
	return err == nil, err
}

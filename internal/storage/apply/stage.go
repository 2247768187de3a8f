package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// linker is a Source that can also deliver a file as one more name of it.
type linker interface {
	Link(ctx context.Context, path string, e tree.Entry, to *fsx.Dir, rel string) (bool, error)
}

// stager builds everything new inside the staging directory, with its final
// metadata.
type stager struct {
	s      *writing
	src    Source
	groups map[string][]string // path to its hard-link group
	first  map[string]string   // path to its staged name, for members of groups
}

// stageAll fills one slot for each unit that brings something new.
func (s *writing) stageAll(ctx context.Context, links [][]string, src Source) error {
	st := &stager{s: s, src: src, groups: map[string][]string{}, first: map[string]string{}}
	for _, g := range links {
		for _, p := range g {
			st.groups[p] = g
		}
	}
	for i := range s.rec.Units {
		u := &s.rec.Units[i]
		op := s.rec.op(*u)
		if op.New == nil {
			continue
		}
		if err := st.unit(ctx, u); err != nil {
			return err
		}
		info, err := s.stage.Lstat(u.Slot)
		if err != nil {
			return err
		}
		u.Ino = info.Ino
	}
	return nil
}

// unit stages one thing and, if it is a directory, everything below it.
func (st *stager) unit(ctx context.Context, u *unit) error {
	ops := st.s.rec.Ops
	top := ops[u.Op].op
	owner := st.s.inheritedOwner(top)
	var dirs []int
	for i := u.Op; i < len(ops); i++ {
		op := ops[i].op
		if i > u.Op && (!isDir(top.New) || op.Path > top.Path+"0") { // "0" follows "/": past everything below
			break
		}
		if i > u.Op && !strings.HasPrefix(op.Path, top.Path+"/") {
			continue
		}
		if op.New == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := st.s.step("apply.stage"); err != nil {
			return fmt.Errorf("stage %q: %w", op.Path, err)
		}
		if err := st.one(op, u.Slot+op.Path[len(top.Path):], owner); err != nil {
			return fmt.Errorf("stage %q: %w", op.Path, err)
		}
		if isDir(op.New) {
			dirs = append(dirs, i)
		}
	}
	for n := len(dirs) - 1; n >= 0; n-- { // a directory's time is set when its entries are there
		op := ops[dirs[n]].op
		if err := st.s.setRecorded(st.s.stage, u.Slot+op.Path[len(top.Path):], op.New, owner); err != nil {
			return fmt.Errorf("stage %q: %w", op.Path, err)
		}
	}
	return nil
}

func (st *stager) one(op Op, rel string, owner *owner) error {
	d, e := st.s.stage, op.New
	if e.Kind == tree.KindDir {
		return d.Mkdir(rel, 0o700)
	}
	if linked, err := st.link(op, rel); linked || err != nil {
		return err
	}
	switch e.Kind {
	case tree.KindFile:
		if err := st.file(op, rel); err != nil {
			return err
		}
	case tree.KindSymlink:
		if err := d.Symlink(e.Target, rel); err != nil {
			return err
		}
	case tree.KindFifo:
		if err := d.Mkfifo(rel, 0o600); err != nil {
			return err
		}
	case tree.KindSocket:
		if err := d.Mksock(rel, 0o600); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: %s", errPlan, e.Kind)
	}
	return st.s.setRecorded(d, rel, e, owner)
}

// link makes an entry one more name of another one of its group.
func (st *stager) link(op Op, rel string) (bool, error) {
	group := st.groups[op.Path]
	for _, p := range group {
		if p == op.Path {
			continue
		}
		at, planned := st.s.rec.index[p]
		if !planned {
			if ok, err := st.linkLive(p, op, rel); ok || err != nil {
				return ok, err
			}
			continue
		}
		staged, ready := st.first[p]
		if ready && Equal(st.s.rec.Ops[at].op.New, op.New, true) {
			return true, st.s.stage.Link(staged, rel)
		}
	}
	if group != nil {
		st.first[op.Path] = rel
	}
	if l, ok := st.src.(linker); ok {
		return l.Link(st.s.ctx, op.Path, *op.New, st.s.stage, rel)
	}
	return false, nil
}

// linkLive links to a file of the target that stays as it is.
func (st *stager) linkLive(path string, op Op, rel string) (bool, error) {
	live, err := Probe(st.s.ctx, st.s.root, path, op.New)
	if err != nil || !Equal(live, op.New, st.s.rec.Owners) {
		return false, err
	}
	err = st.s.root.LinkTo(path, st.s.stage, rel)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EMLINK) || absent(err) {
		return false, nil // a copy will do
	}
	return err == nil, err
}

func (st *stager) file(op Op, rel string) (err error) {
	in, err := st.src.Open(op.Path, *op.New)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := st.s.stage.Create(rel, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	h := tree.NewContent()
	h.Reset(op.New.Size, op.New)
	var n int64
	if f, ok := in.(*os.File); ok {
		n, err = fsx.CopySparse(st.s.ctx, out, f, h)
	} else {
		n, err = fsx.WriteSparse(st.s.ctx, out, in, h)
	}
	if err != nil {
		return err
	}
	got, _, err := h.Sum(op.New)
	if err != nil || got != op.New.Digest || n != op.New.Size {
		return errContents
	}
	return nil
}

// openStage makes the staging directory. What it inherits from the target, a
// group or default ACLs, would go on to everything staged: it is removed.
func (s *writing) openStage() error {
	name := s.rec.Intent.Staging
	if err := s.root.Mkdir(name, 0o700); err != nil {
		return err
	}
	stage, err := s.root.OpenDir(name)
	if err != nil {
		return err
	}
	s.stage = stage
	for _, acl := range []string{"system.posix_acl_default", "system.posix_acl_access"} {
		if err := stage.RemoveXattr(".", acl); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return err
		}
	}
	return stage.Chmod(".", 0o700)
}

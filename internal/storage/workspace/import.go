package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Owner is a recorded owner.
type Owner struct{ UID, GID uint32 }

// Source is the origin of a cell: a directory, or something that Fill unpacks.
type Source struct {
	// Dir is the path of a directory. For a delta cell it is the live one.
	Dir string
	// Fill, if set, writes the tree into an empty directory, with its final
	// modes and times, and as root its owners. It returns a function for the
	// recorded owner of a path below dst ("." is dst itself). Paths without one
	// get the owner on disk, and so do all if the function is nil.
	Fill func(dst *fsx.Dir) (OwnerOf, error)
}

// OwnerOf returns the recorded owner of a path, if there is one.
type OwnerOf func(path string) (Owner, bool)

// Owners counts the entries of one owner that the cell cannot show.
type Owners struct {
	UID, GID uint32
	Count    int
	Example  string
}

// Report lists what an import or a scan took, and what it left out.
type Report struct {
	Files, Dirs int64
	Bytes       int64
	LeftOut     []LeftOut
	// Kept are paths that are kept because git tracks them, although a rule
	// matches them.
	Kept []string
	// Public are paths that are kept because they hold only public certificates
	// or keys, although a rule matches them.
	Public []string
	// Owners are the owners that cannot be mapped in the cell; the manifest
	// records them.
	Owners []Owners
	// Notes are sentences about what could not be kept, such as attributes of
	// the host.
	Notes []string
}

// Import makes the first state of a cell.
func (s *Store) Import(ctx context.Context, c Cell, op string, from Source) (Sealed, Report, error) {
	p, err := s.newPending(op)
	if err != nil {
		return Sealed{}, Report{}, err
	}
	sealed, report, err := s.importInto(ctx, c, p, from)
	if err != nil {
		return Sealed{}, report, errors.Join(fmt.Errorf("import: %w", err), p.discard())
	}
	p.close()
	return sealed, report, nil
}

func (s *Store) importInto(ctx context.Context, c Cell, p *pending, from Source) (Sealed, Report, error) {
	b, err := s.backend(c.Backend)
	if err != nil {
		return Sealed{}, Report{}, err
	}
	pw, err := s.newPack(p.dir, p.layer)
	if err != nil {
		return Sealed{}, Report{}, err
	}
	defer pw.abort()
	if err := s.importHome(pw.w, p); err != nil {
		return Sealed{}, Report{}, err
	}
	var sc *scan
	if from.Fill != nil {
		sc, err = s.scanFilled(ctx, c, b, pw.w, p, from.Fill)
	} else {
		sc, err = s.scanSource(ctx, c, b, pw.w, p, from.Dir)
	}
	if sc != nil {
		defer sc.closeDirs()
	}
	if err != nil {
		return Sealed{}, Report{}, err
	}
	root, links, err := sc.run()
	report := sc.found.report()
	if err != nil {
		return Sealed{}, report, err
	}
	if err := pw.w.SetArea(AreaWorkspace, root, links); err != nil {
		return Sealed{}, report, err
	}
	areas, err := pw.finish()
	if err != nil {
		return Sealed{}, report, err
	}
	if err := s.step("seal.hashed"); err != nil {
		return Sealed{}, report, err
	}
	ws := areas[AreaWorkspace]
	report.Files, report.Dirs, report.Bytes = ws.Files, ws.Dirs, ws.Bytes
	sealed := Sealed{Layer: p.layer, Kind: KindBase, Areas: areas, LeftOut: report.LeftOut}
	keep, objects := b.areas(), int64(0)
	if sc.objects != nil {
		objects = sc.objects.written.Load()
	}
	if err := sealed.measure(ctx, p.dir, keep, objects); err != nil {
		return Sealed{}, report, err
	}
	return sealed, report, s.commitLayer(p, sealed, c.Backend, nil, keep)
}

// importHome makes the empty home of a new cell.
func (s *Store) importHome(w *tree.Writer, p *pending) error {
	home, err := plainDir(p.dir, AreaHome)
	if err != nil {
		return fmt.Errorf("make the cell's home: %w", err)
	}
	defer home.Close()
	return setNewHome(w, home)
}

// setNewHome sets the home to a directory without files, which the caller has made.
func setNewHome(w *tree.Writer, dir *fsx.Dir) error {
	info, err := dir.Lstat(".")
	if err != nil {
		return fmt.Errorf("make the cell's home: %w", err)
	}
	node, err := w.NewDir().Node()
	if err != nil {
		return err
	}
	e := tree.Entry{Kind: tree.KindDir, Mode: info.Mode, UID: info.UID, GID: info.GID, MTime: info.MTime, Sub: node}
	return w.SetArea(AreaHome, e, tree.Links{})
}

// scanSource prepares reading a source directory.
func (s *Store) scanSource(ctx context.Context, c Cell, b backend, w *tree.Writer, p *pending, dir string) (*scan, error) {
	src, err := fsx.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	sc := s.newScan(ctx, ProgressImport, w, src)
	sc.settle, sc.stamps = true, true
	sc.owner = sc.noteOwner
	if err := b.receive(sc, p, false); err != nil {
		return sc, err
	}
	sc.filter, err = sourceFilter(ctx, c.Rules, src, sc.found)
	return sc, err
}

// scanFilled unpacks a source in place and prepares reading it there.
func (s *Store) scanFilled(ctx context.Context, c Cell, b backend, w *tree.Writer, p *pending, fill func(*fsx.Dir) (OwnerOf, error)) (*scan, error) {
	src, err := b.unpackDir(c, p)
	if err != nil {
		return nil, err
	}
	sc := s.newScan(ctx, ProgressImport, w, src)
	ownerOf, err := fill(src)
	if err != nil {
		return sc, err
	}
	if err := b.receive(sc, p, true); err != nil {
		return sc, err
	}
	filter, err := sourceFilter(ctx, c.Rules, src, sc.found)
	if err != nil {
		return sc, err
	}
	if err := prune(ctx, src, filter, sc.found); err != nil {
		return sc, err
	}
	sc.ownedBy(ownerOf)
	return sc, nil
}

// sourceFilter keeps what git tracks in a new source. If a repository cannot be
// read, nothing in it counts as tracked, and the report has a note.
func sourceFilter(ctx context.Context, rules *secretfiles.Rules, src *fsx.Dir, found *findings) (*secretfiles.Filter, error) {
	if rules == nil {
		return nil, nil //nolint:nilnil // a nil filter takes everything
	}
	tracked, err := secretfiles.TrackedPaths(ctx, src)
	if errors.Is(err, secretfiles.ErrGit) {
		found.note("what git tracks there is left out where a rule matches: " + err.Error())
	} else if err != nil {
		return nil, fmt.Errorf("read what git tracks: %w", err)
	}
	return rules.With(tracked).Reading(src.OpenFile), nil
}

// prune removes what the rules leave out from an unpacked tree. Directories keep
// their times.
func prune(ctx context.Context, d *fsx.Dir, f *secretfiles.Filter, found *findings) error {
	if f == nil {
		return nil
	}
	root, err := d.Lstat(".")
	if err != nil {
		return err
	}
	err = fsx.Walk(ctx, d, fsx.Visitor{
		Enter: func(at *fsx.Step) (bool, error) {
			if admit(f, at.Path(), at.Info.IsDir(), found) {
				return true, nil
			}
			before, err := at.Dir().Lstat(".")
			if err != nil {
				return false, err
			}
			if err := at.Dir().RemoveAll(at.Name); err != nil {
				return false, err
			}
			return false, at.Dir().Chtimes(".", before.MTime)
		},
	})
	return errors.Join(err, d.Chtimes(".", root.MTime))
}

// mappedIDs is how many ids a root caller's cells can show.
const mappedIDs = 65536

// noteOwner records owners that a cell of this home cannot show.
func (sc *scan) noteOwner(at site, e, _ *tree.Entry) {
	foreign := e.UID >= mappedIDs || e.GID >= mappedIDs
	if !sc.s.opt.Root {
		foreign = e.UID != uint32(os.Geteuid()) || e.GID != uint32(os.Getegid())
	}
	if foreign {
		sc.found.owner(at.path(), e.UID, e.GID)
	}
}

func (sc *scan) closeDirs() {
	sc.src.Close()
	if sc.dst != nil {
		sc.dst.Close()
	}
	if sc.objects != nil {
		sc.objects.close()
	}
}

// Scan reads a directory as a tree, with the cell's rules, without keeping any
// contents. Files with the same stamp as in old are not read again. The tree is
// valid until the store is closed.
func (s *Store) Scan(ctx context.Context, c Cell, root *fsx.Dir, old *tree.Tree) (*tree.Tree, Report, error) {
	return s.scanTree(ctx, c, root, func(sc *scan) {
		sc.old, sc.settle, sc.stamps = old, true, true
		sc.owner = sc.noteOwner
	})
}

// ScanUnpacked is Scan for a directory that an archive was unpacked into. A path for
// which ownerOf has an owner has that one; ownerOf may be nil.
func (s *Store) ScanUnpacked(ctx context.Context, c Cell, root *fsx.Dir, ownerOf OwnerOf) (*tree.Tree, Report, error) {
	return s.scanTree(ctx, c, root, func(sc *scan) { sc.ownedBy(ownerOf) })
}

// ownedBy makes a scan take recorded owners instead of those on disk.
func (sc *scan) ownedBy(ownerOf OwnerOf) {
	sc.owner = func(at site, e, old *tree.Entry) {
		if ownerOf != nil {
			if o, ok := ownerOf(at.path()); ok {
				e.UID, e.GID = o.UID, o.GID
			}
		}
		sc.noteOwner(at, e, old)
	}
}

func (s *Store) scanTree(ctx context.Context, c Cell, root *fsx.Dir, set func(*scan)) (*tree.Tree, Report, error) {
	t, report, err := s.memoryTree(false, func(w *tree.Writer) (tree.Entry, tree.Links, *findings, error) {
		sc := s.newScan(ctx, "scan", w, root)
		if c.Rules != nil {
			sc.filter = keepOnly(c.Rules, c.Kept).Reading(root.OpenFile)
		}
		set(sc)
		e, links, err := sc.run()
		return e, links, sc.found, err
	})
	if err != nil {
		return nil, report, fmt.Errorf("scan: %w", err)
	}
	n := t.Root().Sub
	report.Files, report.Dirs, report.Bytes = n.Files, n.Dirs, n.Bytes
	return t, report, nil
}

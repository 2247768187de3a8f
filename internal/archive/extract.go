package archive

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/tree"
)

// ExtractOptions says how an archive is read.
type ExtractOptions struct {
	// SetOwners gives every file its recorded owner on disk, which takes root.
	// The owners are returned in any case.
	SetOwners bool
	// Dropped is told what could not be kept: an attribute that the file system
	// or the kernel refuses, flags or labels of other systems. Without it such a
	// thing is an error.
	Dropped func(path, what string)
	// MaxEntries bounds the number of entries; 0 means 4 million.
	MaxEntries int
	// MaxSparse bounds the size of a file that is stored by a map of its holes,
	// which may claim any size; 0 means 64 GiB in old formats, whose holes have to
	// be read, and no bound in the present one.
	MaxSparse int64
}

// Owner is who an entry belongs to.
type Owner struct{ UID, GID uint32 }

// Extract writes what r holds into the empty directory dst, and returns the
// recorded owner of every path that it lists. An entry "./" says what the root is like.
// Directories that the archive does not list get mode 0755.
//
// On an error dst holds a part; the caller removes it. Errors of the archive
// wrap ErrArchive and name the entry; others are errors of the file system or
// of r.
func Extract(ctx context.Context, r io.Reader, dst *fsx.Dir, opt ExtractOptions) (map[string]Owner, error) {
	if opt.MaxEntries == 0 {
		opt.MaxEntries = 4_000_000
	}
	in, err := newInput(ctx, r)
	if err != nil {
		return nil, err
	}
	defer in.close()
	x := &extractor{
		ctx: ctx, in: in, dst: dst, opt: opt, buf: make([]byte, 256<<10),
		owners: map[string]Owner{}, kinds: map[string]tree.Kind{".": tree.KindDir}, dirs: map[string]*tar.Header{},
	}
	if err := x.all(); err != nil {
		return nil, in.explain(err)
	}
	if err := x.finishDirs(); err != nil {
		return nil, err
	}
	return x.owners, nil
}

type extractor struct {
	ctx    context.Context //nolint:containedctx // a call's own state
	in     *input
	tar    *tar.Reader
	dst    *fsx.Dir
	opt    ExtractOptions
	buf    []byte
	owners map[string]Owner
	kinds  map[string]tree.Kind   // what exists by now
	dirs   map[string]*tar.Header // nil: not listed by the archive
}

func refuse(name, format string, args ...any) error {
	return fmt.Errorf("%w: entry %s: %s", ErrArchive, quote.Path(name), fmt.Sprintf(format, args...))
}

func (x *extractor) all() error {
	x.tar = tar.NewReader(x.in)
	for n := 0; ; n++ {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		h, err := x.in.next(x.tar)
		if errors.Is(err, io.EOF) {
			return x.in.finish()
		}
		if err != nil && h == nil {
			return err
		}
		if n >= x.opt.MaxEntries {
			return fmt.Errorf("%w: more than %d entries", ErrArchive, x.opt.MaxEntries)
		}
		if err := x.entry(h); err != nil {
			return err
		}
	}
}

func (x *extractor) entry(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return x.global(h)
	}
	p, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	k, err := kindOf(h)
	if err != nil {
		return err
	}
	if err := x.checkRecords(p, h); err != nil {
		return err
	}
	owner, err := ownerOf(h)
	if err != nil {
		return err
	}
	if p == "." && k != tree.KindDir {
		return refuse(h.Name, "the root is not a directory")
	}
	if err := x.parents(h.Name, p); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeLink {
		return x.hardLink(h, p)
	}
	if err := x.place(h, p, k); err != nil {
		return err
	}
	x.owners[p] = owner
	x.kinds[p] = k
	if k == tree.KindDir {
		x.dirs[p] = h
		return nil
	}
	return x.metadata(p, k, h)
}

// global allows what is harmless in a header for all entries. The standard
// library does not apply such headers, so nothing else may be in one.
func (x *extractor) global(h *tar.Header) error {
	if _, ok := h.PAXRecords[recordChanges]; ok {
		return fmt.Errorf("%w: it holds only changes, not a whole state", ErrArchive)
	}
	for k := range h.PAXRecords {
		if k != "comment" {
			return refuse(h.Name, "record %s for all entries is not supported", quote.Path(k))
		}
	}
	return nil
}

// cleanName returns the path that a name in an archive means.
func cleanName(name string) (string, error) {
	if strings.HasPrefix(name, "/") {
		return "", refuse(name, "the name is absolute")
	}
	if name == "" {
		return "", refuse(name, "the name is empty")
	}
	for c := range strings.SplitSeq(name, "/") {
		if c == ".." {
			return "", refuse(name, "the name leads out of the tree")
		}
		if len(c) > 255 {
			return "", refuse(name, "a name of %d bytes is too long", len(c))
		}
	}
	p := path.Clean(name)
	if err := fsx.CheckPath(p); err != nil {
		return "", refuse(name, "%v", err)
	}
	if strings.Count(p, "/") >= maxDepth {
		return "", refuse(name, "it is nested too deeply")
	}
	return p, nil
}

const maxDepth = 10_000

func kindOf(h *tar.Header) (tree.Kind, error) {
	switch h.Typeflag {
	case tar.TypeReg, '\x00', tar.TypeCont, tar.TypeGNUSparse:
		switch t := h.PAXRecords[recordType]; {
		case t == "":
			return tree.KindFile, nil
		case t == "socket" && h.Size == 0:
			return tree.KindSocket, nil
		default:
			return 0, refuse(h.Name, "unknown type %s", quote.Path(t))
		}
	case tar.TypeLink:
		return 0, nil
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > 4095 || strings.IndexByte(h.Linkname, 0) >= 0 {
			return 0, refuse(h.Name, "the target of the symbolic link is empty or too long")
		}
		return tree.KindSymlink, nil
	case tar.TypeDir:
		return tree.KindDir, nil
	case tar.TypeFifo:
		return tree.KindFifo, nil
	case tar.TypeChar, tar.TypeBlock:
		return 0, refuse(h.Name, "device nodes are not allowed")
	}
	return 0, refuse(h.Name, "unknown type %q", h.Typeflag)
}

func ownerOf(h *tar.Header) (Owner, error) {
	const none = 1<<32 - 1 // means "leave it" to the kernel
	if h.Uid < 0 || h.Uid >= none || h.Gid < 0 || h.Gid >= none {
		return Owner{}, refuse(h.Name, "owner %d:%d is out of range", h.Uid, h.Gid)
	}
	return Owner{uint32(h.Uid), uint32(h.Gid)}, nil
}

// parents makes the directories above p that do not exist yet.
func (x *extractor) parents(name, p string) error {
	for i := 0; i < len(p); i++ {
		if p[i] != '/' {
			continue
		}
		dir := p[:i]
		switch k, ok := x.kinds[dir]; {
		case !ok:
			if err := x.dst.Mkdir(dir, 0o700); err != nil {
				return err
			}
			x.kinds[dir], x.dirs[dir] = tree.KindDir, nil
		case k != tree.KindDir:
			return refuse(name, "it is below %s, which is a %s", quote.Path(dir), k)
		}
	}
	return nil
}

// vacate makes room for a later entry of the same name, which replaces the
// earlier one if it is of the same kind: archives that were appended to have
// such. It reports whether a directory stays.
func (x *extractor) vacate(h *tar.Header, p string, k tree.Kind) (stays bool, err error) {
	was, ok := x.kinds[p]
	switch {
	case !ok:
		return false, nil
	case was != k:
		return false, refuse(h.Name, "it is there twice, as a %s and as a %s", was, k)
	case k == tree.KindDir:
		return true, nil
	}
	return false, x.dst.Remove(p)
}

func (x *extractor) place(h *tar.Header, p string, k tree.Kind) error {
	stays, err := x.vacate(h, p, k)
	if stays || err != nil {
		return err
	}
	switch k {
	case tree.KindDir:
		return x.dst.Mkdir(p, 0o700)
	case tree.KindSymlink:
		return x.dst.Symlink(h.Linkname, p)
	case tree.KindFifo:
		return x.dst.Mkfifo(p, 0o600)
	case tree.KindSocket:
		return x.dst.Mksock(p, 0o600)
	case tree.KindFile:
		return x.file(h, p)
	}
	return refuse(h.Name, "unknown kind")
}

func (x *extractor) hardLink(h *tar.Header, p string) error {
	target, err := cleanName(h.Linkname)
	if err != nil {
		return refuse(h.Name, "hard link to %s, which is not in the tree", quote.Path(h.Linkname))
	}
	k, ok := x.kinds[target]
	switch {
	case !ok:
		return refuse(h.Name, "hard link to %s, which is not in the archive before it", quote.Path(target))
	case k == tree.KindDir:
		return refuse(h.Name, "hard link to the directory %s", quote.Path(target))
	case target == p:
		return refuse(h.Name, "hard link to itself")
	}
	if _, err := x.vacate(h, p, k); err != nil {
		return err
	}
	if err := x.dst.Link(target, p); err != nil {
		return err
	}
	x.kinds[p], x.owners[p] = k, x.owners[target]
	return nil
}

// finishDirs gives the directories what they are recorded with, the deepest
// first: a mode may close them, an entry in them would change their times, and
// a default ACL would be inherited.
func (x *extractor) finishDirs() error {
	paths := make([]string, 0, len(x.dirs))
	for p := range x.dirs {
		paths = append(paths, p)
	}
	depth := func(p string) int {
		if p == "." {
			return -1
		}
		return strings.Count(p, "/")
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Or(cmp.Compare(depth(b), depth(a)), strings.Compare(a, b)) })
	for _, p := range paths {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		h := x.dirs[p]
		if h == nil {
			if err := x.dst.Chmod(p, 0o755); err != nil {
				return err
			}
			continue
		}
		if err := x.metadata(p, tree.KindDir, h); err != nil {
			return err
		}
	}
	return nil
}

package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// ExtractOptions configures how an archive is read.
type ExtractOptions struct {
	// SetOwners sets the recorded owner of every file, which takes root. The
	// owners are returned in any case.
	SetOwners bool
	// Dropped is called with what could not be kept: an attribute that the file
	// system or the kernel refuses, flags or labels of other systems. If it is
	// nil, these are errors.
	Dropped func(path, what string)
	// MaxEntries bounds the number of entries, and of files and directories that
	// they make; 0 means 4 million.
	MaxEntries int
	// MaxSparse bounds the size of a file that is stored by a map of its holes,
	// which may claim any size; 0 means 64 GiB in old formats, whose holes have to
	// be read, and no bound in the present one.
	MaxSparse int64
	// Space is called with the disk space that the files may take so far: the bytes of
	// the archive, without compression, and 4 KiB for each entry. An error ends the
	// extraction. It may be nil.
	Space func(bytes int64) error
}

// Owner is the owner of an entry.
type Owner struct{ UID, GID uint32 }

// Extract writes the archive r into the empty directory dst, and returns the
// recorded owners. An entry "./" has the metadata of the root. Directories that
// the archive does not list get mode 0755.
//
// On an error dst holds a part; the caller removes it. Errors of the archive wrap
// ErrArchive and name the entry; others are errors of the file system or of r.
func Extract(ctx context.Context, r io.Reader, dst *fsx.Dir, opt ExtractOptions) (Owners, error) {
	if opt.MaxEntries == 0 {
		opt.MaxEntries = 4_000_000
	}
	in, err := newInput(ctx, r)
	if err != nil {
		return Owners{}, err
	}
	defer in.close()
	in.space = opt.Space
	keeper := fsx.NewKeeper(keptOpen)
	defer keeper.Close()
	x := &extractor{
		ctx: ctx, in: in, opt: opt, buf: make([]byte, 256<<10),
		root: &node{kind: tree.KindDir, dir: &dirNode{ref: keeper.Root(dst)}},
	}
	if err := x.all(); err != nil {
		return Owners{}, in.explain(err)
	}
	if err := x.finishDirs(); err != nil {
		return Owners{}, err
	}
	return Owners{x.root}, nil
}

// keptOpen is the number of unused directories that stay open.
const keptOpen = 32

type extractor struct {
	ctx   context.Context //nolint:containedctx // a call's own state
	in    *input
	tar   *tar.Reader
	opt   ExtractOptions
	buf   []byte
	root  *node
	at    cursor
	nodes int
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
	if p == "." {
		x.root.owner, x.root.dir.meta = &owner, metadataOf(h)
		return nil
	}
	dir, base, err := x.parent(h.Name, p)
	if err != nil {
		return err
	}
	if h.Typeflag == tar.TypeLink {
		return x.hardLink(h, p, dir, base)
	}
	n, err := x.place(h, dir, base, k)
	if err != nil {
		return err
	}
	n.owner = &owner
	if k == tree.KindDir {
		n.dir.meta = metadataOf(h)
		return nil
	}
	d, name, release, err := n.in()
	if err != nil {
		return err
	}
	defer release()
	return x.metadata(d, name, n, metadataOf(h))
}

// global allows what is harmless in a header for all entries. The standard
// library does not apply such headers, so nothing else may be in one.
func (x *extractor) global(h *tar.Header) error {
	if _, ok := h.PAXRecords[recordChanges]; ok {
		return fmt.Errorf("%w: it has only changes, not a whole state", ErrArchive)
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
	// Archives of this package have plain names.
	if p := strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/"); fsx.CheckPath(p) == nil {
		return p, nil
	}
	p := path.Clean(name)
	if err := fsx.CheckPath(p); err != nil {
		return "", refuse(name, "%v", err)
	}
	return p, nil
}

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

// vacate removes an earlier entry of the same name and kind, which a later one
// replaces: archives that were appended to have such. It returns a directory,
// which stays.
func (x *extractor) vacate(h *tar.Header, dir *node, base string, k tree.Kind) (stays *node, err error) {
	was := dir.kid(base)
	switch {
	case was == nil:
		return nil, nil //nolint:nilnil // as documented
	case was.kind != k:
		return nil, refuse(h.Name, "listed twice, as a %s and as a %s", was.kind, k)
	case k == tree.KindDir:
		return was, nil
	}
	d, name, release, err := was.in()
	if err != nil {
		return nil, err
	}
	defer release()
	return nil, d.Remove(name)
}

func (x *extractor) place(h *tar.Header, dir *node, base string, k tree.Kind) (*node, error) {
	stays, err := x.vacate(h, dir, base, k)
	if stays != nil || err != nil {
		return stays, err
	}
	if k == tree.KindDir {
		return x.makeDir(dir, base)
	}
	n, err := x.add(dir, base, k)
	if err != nil {
		return nil, err
	}
	d, name, release, err := n.in()
	if err != nil {
		return nil, err
	}
	defer release()
	switch k {
	case tree.KindSymlink:
		err = d.Symlink(h.Linkname, name)
	case tree.KindFifo:
		err = d.Mkfifo(name, 0o600)
	case tree.KindSocket:
		err = d.Mksock(name, 0o600)
	case tree.KindFile:
		err = x.file(h, d, name)
	default:
		err = refuse(h.Name, "unknown kind")
	}
	return n, err
}

func (x *extractor) hardLink(h *tar.Header, p string, dir *node, base string) error {
	target, err := cleanName(h.Linkname)
	if err != nil {
		return refuse(h.Name, "hard link to %s, which is not in the tree", quote.Path(h.Linkname))
	}
	to := x.lookup(target)
	switch {
	case to == nil:
		return refuse(h.Name, "hard link to %s, which is not in the archive before it", quote.Path(target))
	case to.kind == tree.KindDir:
		return refuse(h.Name, "hard link to the directory %s", quote.Path(target))
	case target == p:
		return refuse(h.Name, "hard link to itself")
	}
	if _, err := x.vacate(h, dir, base, to.kind); err != nil {
		return err
	}
	n, err := x.add(dir, base, to.kind)
	if err != nil {
		return err
	}
	n.owner = to.owner
	from, old, releaseFrom, err := to.in()
	if err != nil {
		return err
	}
	defer releaseFrom()
	d, name, release, err := n.in()
	if err != nil {
		return err
	}
	defer release()
	return from.LinkTo(old, d, name)
}

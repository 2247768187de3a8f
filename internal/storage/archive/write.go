package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Opener opens the contents of a file of the tree.
type Opener func(path string, e tree.Entry) (*os.File, error)

// Write writes the whole of t to w, the root first. It compares contents with their
// digests: a damaged file ends the export.
func Write(ctx context.Context, w io.Writer, t *tree.Tree, open Opener, opt Options) error {
	links, err := t.Links()
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return export(ctx, w, open, links, opt, func(a *writer) error {
		return t.Walk(a.entry)
	})
}

// WriteChanges writes only what changed: the new state of every path that was
// added or changed, and the names of the deleted ones. t is the tree with the
// changes in it. Extract refuses such an archive.
func WriteChanges(ctx context.Context, w io.Writer, t *tree.Tree, changes []tree.Change, open Opener, opt Options) error {
	links, err := t.Links()
	if err != nil {
		return fmt.Errorf("export changes: %w", err)
	}
	return export(ctx, w, open, links, opt, func(a *writer) error {
		if err := a.changesHeader(changes); err != nil {
			return err
		}
		for _, c := range changes {
			if c.New == nil {
				continue
			}
			if err := a.entry(c.Path, *c.New); err != nil {
				return err
			}
		}
		return nil
	})
}

// export sets the pipeline up, lets fill write the entries, and finishes it.
func export(ctx context.Context, w io.Writer, open Opener, links tree.Links, opt Options, fill func(*writer) error) (err error) {
	out := w
	if opt.Zstd {
		z, err := newEncoder(w)
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		defer func() {
			if cerr := z.Close(); cerr != nil && err == nil {
				err = fmt.Errorf("export: %w", cerr)
			}
		}()
		out = z
	}
	a := &writer{ctx: ctx, out: out, tar: tar.NewWriter(out), open: open, group: map[string]int{}, first: map[int]string{}, sum: tree.NewContent(), buf: make([]byte, 256<<10)}
	for i, g := range links.Groups {
		for _, p := range g {
			a.group[p] = i
		}
	}
	if err := fill(a); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if err := a.tar.Close(); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// writer writes the entries of one archive. The context lives as long as the one
// call that made it.
type writer struct {
	ctx   context.Context //nolint:containedctx // a call's own state
	out   io.Writer       // what tar writes to
	tar   *tar.Writer
	open  Opener
	group map[string]int // hard-link group of a path
	first map[int]string // the path of a group that holds the contents
	sum   *tree.Content
	buf   []byte
}

func (a *writer) entry(path string, e tree.Entry) error {
	if err := a.ctx.Err(); err != nil {
		return err
	}
	h := header(path, e)
	if g, ok := a.group[path]; ok {
		if first, again := a.first[g]; again {
			h.Typeflag, h.Size, h.Linkname = tar.TypeLink, 0, first
			delete(h.PAXRecords, recordType)
			return named(path, a.tar.WriteHeader(charset(h)))
		}
		a.first[g] = h.Name
	}
	if e.Kind != tree.KindFile {
		return named(path, a.tar.WriteHeader(charset(h)))
	}
	return named(path, a.file(path, e, h))
}

func named(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong):
		return fmt.Errorf("%s cannot be kept in a tar archive: %w", quote.Path(path), err)
	}
	return fmt.Errorf("%s: %w", quote.Path(path), err)
}

func header(path string, e tree.Entry) *tar.Header {
	h := &tar.Header{
		Format: tar.FormatPAX, Name: entryName(path, e.Kind), Mode: int64(e.Mode),
		Uid: int(e.UID), Gid: int(e.GID), ModTime: e.MTime.Time(), PAXRecords: map[string]string{},
	}
	switch e.Kind {
	case tree.KindFile:
		h.Typeflag, h.Size = tar.TypeReg, e.Size
	case tree.KindDir:
		h.Typeflag = tar.TypeDir
	case tree.KindSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Target
	case tree.KindFifo:
		h.Typeflag = tar.TypeFifo
	case tree.KindSocket:
		h.Typeflag = tar.TypeReg
		h.PAXRecords[recordType] = "socket"
	}
	for _, x := range e.Xattrs {
		h.PAXRecords[xattrKey(x.Name)] = string(x.Value)
	}
	return h
}

// charset marks names that are not UTF-8 as bytes, as PAX requires.
func charset(h *tar.Header) *tar.Header {
	if !utf8.ValidString(h.Name) || !utf8.ValidString(h.Linkname) {
		h.PAXRecords[recordCharset] = "BINARY"
	}
	return h
}

// file writes a header and contents, and compares them with the entry.
func (a *writer) file(path string, e tree.Entry, h *tar.Header) error {
	f, err := a.open(path, e)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := fsx.StatFile(f)
	if err != nil {
		return err
	}
	if info.Size != e.Size {
		return fmt.Errorf("contents are damaged: %d bytes instead of %d", info.Size, e.Size)
	}
	if info.Blocks*512 < info.Size {
		extents, err := fsx.Extents(a.ctx, f, e.Size)
		if err != nil {
			return err
		}
		if fsx.ExtentsLen(extents) < e.Size {
			return a.sparse(f, e, h, extents)
		}
		h.PAXRecords[recordSparse] = "1" // it has small holes
	}
	if err := a.tar.WriteHeader(charset(h)); err != nil {
		return err
	}
	a.sum.Reset(e.Size, &e)
	src := contextReader{a.ctx, io.NewSectionReader(f, 0, e.Size)}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(a.tar, a.sum)}, src, a.buf)
	if err != nil {
		return err
	}
	if n != e.Size {
		return errDamaged
	}
	return a.checkSum(e)
}

// checkSum compares the contents that were read with the entry.
func (a *writer) checkSum(e tree.Entry) error {
	if digest, _, err := a.sum.Sum(&e); err != nil || digest != e.Digest {
		return errDamaged
	}
	return nil
}

var errDamaged = errors.New("contents are damaged: they do not match the recorded digest")

// contextReader is a reader that fails when its context ends.
type contextReader struct {
	ctx context.Context //nolint:containedctx // a call's own state
	r   io.Reader
}

func (p contextReader) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.r.Read(b)
}

// maxDeleted bounds one record; tar readers refuse headers above 1 MiB.
const maxDeleted = 256 << 10

// changesHeader marks the archive and lists the deleted paths. The old path of a
// rename is one of them.
func (a *writer) changesHeader(changes []tree.Change) error {
	global := func(key, value string) error {
		return a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{key: value}})
	}
	if err := global(recordChanges, "1"); err != nil {
		return err
	}
	var gone []string
	size := 0
	flush := func() error {
		if len(gone) == 0 {
			return nil
		}
		err := global(recordDeleted, strings.Join(gone, "\x00"))
		gone, size = nil, 0
		return err
	}
	for _, c := range changes {
		p := c.OldPath
		if c.Kind == tree.Deleted {
			p = c.Path
		}
		if p == "" {
			continue
		}
		if size+len(p) > maxDeleted {
			if err := flush(); err != nil {
				return err
			}
		}
		gone, size = append(gone, p), size+len(p)+1
	}
	return flush()
}

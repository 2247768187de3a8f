package workspace

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// hostDir is the host's directory below an area.
type hostDir struct {
	s   *Store
	ctx context.Context //nolint:containedctx // lives as long as one seal
	dir *fsx.Dir
	// owners means that owners can be compared: the layers have the same ids as
	// the host.
	owners bool
}

// hostBelow opens the host's directory below an area; nil if there is none.
func (s *Store) hostBelow(ctx context.Context, pl placedArea) (*hostDir, error) {
	if pl.Host == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	d, err := fsx.OpenRoot(pl.Host)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // as documented
	}
	if err != nil {
		return nil, err
	}
	return &hostDir{s: s, ctx: ctx, dir: d, owners: pl.System && s.opt.Root}, nil
}

func (h *hostDir) close() {
	if h != nil {
		h.dir.Close()
	}
}

// entryBelow describes the host's entry at a path. An entry that cannot be read counts
// as absent: the result only serves to show people what was added.
func (h *hostDir) entryBelow(path string, e *tree.Entry) tree.Below {
	if h == nil {
		return tree.Below{}
	}
	info, err := h.dir.Lstat(path)
	if err != nil {
		return tree.Below{}
	}
	b := tree.Below{Kind: tree.KindOf(info)}
	b.Same = b.Kind == e.Kind && h.isSame(path, info, e)
	return b
}

// sameAttrs reports whether two lists have the same attributes, in any order.
func sameAttrs(a, b []fsx.Xattr) bool {
	byName := func(x, y fsx.Xattr) int { return strings.Compare(x.Name, y.Name) }
	return slices.EqualFunc(slices.SortedFunc(slices.Values(a), byName), slices.SortedFunc(slices.Values(b), byName),
		func(x, y fsx.Xattr) bool { return x.Name == y.Name && bytes.Equal(x.Value, y.Value) })
}

// isSame reports whether an entry of the same kind differs from the host's at most
// in its time.
func (h *hostDir) isSame(path string, info fsx.Info, e *tree.Entry) bool {
	if e.Kind != tree.KindSymlink && info.Mode != e.Mode || h.owners && (info.UID != e.UID || info.GID != e.GID) {
		return false
	}
	all, err := h.dir.Xattrs(path)
	if err != nil {
		return false
	}
	kept, _, _, _ := h.s.plainAttrs().classify(all)
	if !sameAttrs(kept, e.Xattrs) {
		return false
	}
	switch e.Kind {
	case tree.KindFile:
		if info.Size != e.Size {
			return false
		}
		f, err := h.dir.OpenFile(path)
		if err != nil {
			return false
		}
		defer f.Close()
		digest, _, _, err := h.s.hashFile(h.ctx, f, e)
		return err == nil && digest == e.Digest
	case tree.KindSymlink:
		target, err := h.dir.Readlink(path)
		return err == nil && target == e.Target
	case tree.KindDir, tree.KindFifo, tree.KindSocket:
	}
	return true
}

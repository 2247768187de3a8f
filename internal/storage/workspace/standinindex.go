package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/gitread"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

const (
	// newIndex is the file in the directory of a generation that replaces an index.
	newIndex = "standins.index"
	// maxShownIndex bounds an index of which a cell sees another one.
	maxShownIndex = 256 << 20
)

// IndexStandIn returns the stand-in of an index in which the entries of hidden paths are
// skipped: git does not take them for removed. The result is nil if the index has no such
// entry, or is not one that can be read.
func IndexStandIn(p string, index []byte, hidden []string) *StandIn {
	entries, err := gitread.ParseIndex(index)
	if err != nil {
		return nil
	}
	skip := &SkippedIndex{Hidden: slices.Sorted(slices.Values(hidden))}
	for _, e := range entries {
		if e.IsSkipped() && skip.hides(e.Name) {
			skip.Kept = append(skip.Kept, e.Name)
		}
	}
	shown, err := gitread.WithSkipFlags(index, func(e gitread.IndexEntry) bool { return e.IsSkipped() || skip.hides(e.Name) })
	if err != nil || bytes.Equal(shown, index) {
		return nil
	}
	skip.Digest = digestText(shown)
	return &StandIn{Path: p, Contents: shown, Index: skip}
}

// hides reports whether the path of an entry is hidden, or one above it.
func (x *SkippedIndex) hides(name string) bool {
	for at := name; ; {
		if _, found := slices.BinarySearch(x.Hidden, at); found {
			return true
		}
		cut := bytes.LastIndexByte([]byte(at), '/')
		if cut < 0 {
			return false
		}
		at = at[:cut]
	}
}

func digestText(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// shown returns an index as the cell left it, without the flags of the stand-in. It
// reports whether the cell has not changed it. Both are zero for what is no index, or has
// no such flag.
func (r *removing) shown(s StandIn, info fsx.Info) (index []byte, unchanged bool, err error) {
	if info.Size > maxShownIndex {
		return nil, false, nil
	}
	if info.Mode&0o400 == 0 { // the cell must not keep its owner from reading it
		if err := r.upper.Chmod(s.Path, info.Mode|0o400); err != nil {
			return nil, false, err
		}
		defer func() {
			if index == nil && !unchanged {
				err = errors.Join(err, r.upper.Chmod(s.Path, info.Mode))
			}
		}()
	}
	text, err := readWithin(r.upper, s.Path, maxShownIndex)
	if err != nil {
		return nil, false, err
	}
	if digestText(text) == s.Index.Digest {
		return nil, true, nil
	}
	kept := map[string]bool{}
	for _, name := range s.Index.Kept {
		kept[name] = true
	}
	index, err = gitread.WithSkipFlags(text, func(e gitread.IndexEntry) bool {
		return e.IsSkipped() && (kept[e.Name] || !s.Index.hides(e.Name))
	})
	if err != nil || bytes.Equal(index, text) {
		return nil, false, nil //nolint:nilerr // it stays as the cell left it, and is held back on its way out
	}
	return index, false, nil
}

// replace replaces an index. The new one is complete before it has the name.
func (r *removing) replace(p, dir string, info, above fsx.Info, text []byte) error {
	if err := removeIfThere(r.dir, newIndex); err != nil {
		return err
	}
	e := tree.Entry{Kind: tree.KindFile, Mode: info.Mode, UID: info.UID, GID: info.GID, MTime: info.MTime, Size: int64(len(text))}
	if _, err := putFile(context.Background(), r.dir, newIndex, bytes.NewReader(text), nil, e, r.owners); err != nil {
		return err
	}
	if err := r.note(dir, above); err != nil {
		return err
	}
	return r.dir.Rename(newIndex, r.upper, p, 0)
}

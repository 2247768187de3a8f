package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// rereads is how often a file that changes while it is read is read again.
const rereads = 3

// Probe returns the entry that is at path now, with its contents hashed; nil if
// there is nothing, also when a part of the path is no directory. Things that
// no tree can hold, as devices, have Kind 0 and equal nothing. like, if not nil,
// is what it will be compared with.
func Probe(ctx context.Context, target *fsx.Dir, path string, like *tree.Entry) (*tree.Entry, error) {
	for try := 0; ; try++ {
		e, err := ProbeMetadata(target, path)
		if e == nil || err != nil || e.Kind != tree.KindFile {
			return e, err
		}
		again, err := hashFile(ctx, target, path, e, like)
		if err == nil && !again {
			return e, nil
		}
		if err != nil && !absent(err) && !errors.Is(err, fsx.ErrNotRegular) {
			return nil, err
		}
		if try == rereads {
			return nil, fmt.Errorf("read %q: it keeps changing", path)
		}
	}
}

// ProbeMetadata is Probe without contents: Digest stays zero.
func ProbeMetadata(target *fsx.Dir, path string) (*tree.Entry, error) {
	info, err := target.Lstat(path)
	if absent(err) {
		return nil, nil //nolint:nilnil // nothing there is an answer
	}
	if err != nil {
		return nil, err
	}
	e := &tree.Entry{
		Name: baseOf(path), Kind: tree.KindOf(info), Mode: info.Mode, UID: info.UID, GID: info.GID, MTime: info.MTime,
		Stamp: tree.StampOf(info),
	}
	switch e.Kind {
	case tree.KindFile:
		e.Size = info.Size
	case tree.KindSymlink:
		if e.Target, err = target.Readlink(path); err != nil {
			return nil, err
		}
		e.Size = int64(len(e.Target))
	case tree.KindDir, tree.KindFifo, tree.KindSocket:
	}
	if e.Xattrs, err = target.Xattrs(path); err != nil {
		return nil, err
	}
	return e, nil
}

func hashFile(ctx context.Context, target *fsx.Dir, path string, e, like *tree.Entry) (again bool, err error) {
	f, err := target.OpenFile(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	h := tree.NewContent()
	h.Reset(e.Size, like)
	n, err := fsx.ReadSparse(ctx, f, h)
	if err != nil {
		return false, err
	}
	info, err := fsx.StatFile(f)
	if err != nil {
		return false, err
	}
	e.Digest, e.PlainDigest, err = h.Sum(like)
	if errors.Is(err, tree.ErrSize) {
		return true, nil
	}
	e.Size = n
	now := tree.StampOf(info)
	return now != e.Stamp || n != info.Size, nil
}

// absent: a link or a file in the middle of a path means that there is nothing
// at its end, since links are not followed.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

func baseOf(path string) string {
	if path == "." {
		return ""
	}
	if p := parentOf(path); p != "." {
		return path[len(p)+1:]
	}
	return path
}

// Equal reports whether two entries are the same apart from the time of
// modification. Directories are compared without what they hold. Owners are
// compared only if asked.
func Equal(a, b *tree.Entry, owners bool) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return similar(a, b, owners) && a.Digest == b.Digest
}

// similar is Equal without contents.
func similar(a, b *tree.Entry, owners bool) bool {
	if a.Kind != b.Kind || a.Kind == 0 || a.Target != b.Target {
		return false
	}
	if a.Kind == tree.KindFile && a.Size != b.Size {
		return false
	}
	if a.Kind != tree.KindSymlink && a.Mode != b.Mode { // the mode of a link means nothing
		return false
	}
	if owners && (a.UID != b.UID || a.GID != b.GID) {
		return false
	}
	return sameXattrs(a.Xattrs, b.Xattrs)
}

func sameXattrs(a, b []fsx.Xattr) bool {
	i, j := 0, 0
	for {
		for i < len(a) && ofTheHost(a[i].Name) {
			i++
		}
		for j < len(b) && ofTheHost(b[j].Name) {
			j++
		}
		if i == len(a) || j == len(b) {
			return i == len(a) && j == len(b)
		}
		if a[i].Name != b[j].Name || !bytes.Equal(a[i].Value, b[j].Value) {
			return false
		}
		i, j = i+1, j+1
	}
}

// ofTheHost lists labels that the host sets on every file it makes. They say where
// a file is, not what it is.
func ofTheHost(name string) bool {
	switch name {
	case "security.selinux", "security.SMACK64", "security.ima", "security.evm":
		return true
	}
	return false
}

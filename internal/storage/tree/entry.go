// Package tree defines file trees: their entries, their identity, the packs
// that store it, and how two trees differ.
//
// A tree is persistent and immutable. Its directories are nodes that are
// identified by hashes and stored in packs, one pack per layer; a new tree
// shares every unchanged node with the trees before it, so the cost of making,
// storing and comparing trees follows the change, not the size.
//
// The package is pure but for reading packs through the interface Packs. It
// must not know where layers are kept, how contents are read, what a cell or a
// run is, or how anything is printed. The formats are described in
// docs/formats/identity.md.
package tree

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

var (
	// ErrCorrupt means that a stored tree is not what was written. Errors that
	// wrap it name the layer.
	ErrCorrupt = errors.New("corrupt manifest")
	// ErrNewerFormat means that a pack was written by a newer program.
	ErrNewerFormat = errors.New("newer manifest format than this program knows")
	// errInvalid means that an entry, a name, a path or a link table is not one
	// that a tree may hold.
	errInvalid = errors.New("not valid in a tree")
)

// Kind is the type of an entry. Its values are part of the formats.
type Kind uint8

// The kinds of entries. There are no others, but for KindWhiteout: device nodes
// are refused before they reach a tree.
const (
	KindFile    Kind = 1
	KindDir     Kind = 2
	KindSymlink Kind = 3
	KindFifo    Kind = 4
	KindSocket  Kind = 5
)

// KindOf returns the kind of what is in a file system; 0 if no tree can hold it.
func KindOf(info fsx.Info) Kind {
	switch info.Type {
	case unix.S_IFREG:
		return KindFile
	case unix.S_IFDIR:
		return KindDir
	case unix.S_IFLNK:
		return KindSymlink
	case unix.S_IFIFO:
		return KindFifo
	case unix.S_IFSOCK:
		return KindSocket
	}
	return 0
}

func (k Kind) String() string {
	switch k {
	case KindFile:
		return "file"
	case KindDir:
		return "directory"
	case KindSymlink:
		return "symlink"
	case KindFifo:
		return "fifo"
	case KindSocket:
		return "socket"
	case KindWhiteout:
		return "whiteout"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Hash is a SHA-256 value.
type Hash [32]byte

// String is the hash in lower-case hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether the hash was never set.
func (h Hash) IsZero() bool { return h == Hash{} }

// ParseHash reads what String wrote, and nothing else.
func ParseHash(s string) (Hash, error) {
	var h Hash
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) || s != strings.ToLower(s) {
		return Hash{}, fmt.Errorf("parse hash %q: want 64 lower-case hexadecimal digits: %w", s, errInvalid)
	}
	copy(h[:], b)
	return h, nil
}

// Stamp is metadata of a file at the time when its contents were read. A
// file whose stamp is still the same need not be read again. The zero value
// means unknown.
type Stamp struct {
	Ino   uint64
	CTime fsx.Time
	Dev   uint64
}

// StampOf returns the stamp of a file.
func StampOf(info fsx.Info) Stamp { return Stamp{Ino: info.Ino, CTime: info.CTime, Dev: info.Dev} }

// Entry is one name in a directory, or the root of a tree (whose name is
// empty). Entries that are read from a tree share memory with it: do not
// change their Xattrs in place.
type Entry struct {
	Name  string
	Kind  Kind
	Mode  uint32 // permission bits, 07777
	UID   uint32
	GID   uint32
	Size  int64 // of files; the length of Target of symlinks; 0 else
	MTime fsx.Time
	// Digest identifies a file's contents: see Content.
	Digest Hash
	// PlainDigest means that the digest of a large file is the SHA-256 of its
	// bytes, as all were in version 1 of the format. The digests of both versions
	// cannot be compared.
	PlainDigest bool
	// Target is a symlink's.
	Target string
	// Xattrs are sorted by name.
	Xattrs []fsx.Xattr
	// Sub is the directory's node; only directories have one.
	Sub Node
	// Opaque, in a tree of changes, is a directory that hides the one below it.
	Opaque bool

	// Layer names the layer whose area directory holds the bytes of a file. It
	// is kept with the entry but is no part of its identity.
	Layer string
	// Stamp is no part of the identity either.
	Stamp Stamp
	// Below, in a tree of changes, is what the host has there; it too is no part
	// of the identity.
	Below Below
}

const (
	maxName      = 4095    // longer than any file system allows
	maxTarget    = 1 << 16 // PATH_MAX is 4096
	maxXattrName = 255     // XATTR_NAME_MAX
	maxXattr     = 1 << 24 // XATTR_SIZE_MAX is 65536; some file systems allow more
	maxXattrs    = 1 << 16
	maxLayer     = 128
	maxMode      = 0o7777
	nsecPerSec   = 1_000_000_000
)

// validName returns why a name cannot be an entry's, or nil.
func validName(name string) error {
	switch {
	case name == "", name == ".", name == "..":
		return fmt.Errorf("name %q: %w", name, errInvalid)
	case strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("name %q has a slash or a NUL: %w", name, errInvalid)
	case len(name) > maxName:
		return fmt.Errorf("name of %d bytes: %w", len(name), errInvalid)
	}
	return nil
}

// validLayer accepts what can safely become a directory's name: packs are
// found by layer names that were read from other packs.
func validLayer(layer string) error {
	ok := layer != "" && len(layer) <= maxLayer && layer[0] != '.'
	for i := 0; ok && i < len(layer); i++ {
		c := layer[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
	}
	if !ok {
		return fmt.Errorf("layer name %q: %w", layer, errInvalid)
	}
	return nil
}

// canonical returns e with the fields that its kind does not have cleared, and
// with sorted xattrs, so that equal things have equal encodings.
func canonical(e Entry) (Entry, error) {
	switch e.Kind {
	case KindFile:
		e.Target, e.Sub = "", Node{}
		e.PlainDigest = e.PlainDigest && e.Size > LargeFile
	case KindDir:
		e.Size, e.Digest, e.Target = 0, Hash{}, ""
	case KindSymlink:
		e.Size, e.Digest, e.Sub = int64(len(e.Target)), Hash{}, Node{}
	case KindFifo, KindSocket:
		e.Size, e.Digest, e.Target, e.Sub = 0, Hash{}, "", Node{}
	case KindWhiteout:
		e = Entry{Name: e.Name, Kind: KindWhiteout, Below: e.Below}
	}
	e.PlainDigest = e.PlainDigest && e.Kind == KindFile
	byName := func(a, b fsx.Xattr) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(e.Xattrs, byName) {
		e.Xattrs = slices.Clone(e.Xattrs)
		slices.SortFunc(e.Xattrs, byName)
	}
	return e, checkEntry(&e)
}

// checkEntry returns why e is not in canonical form, apart from its name.
func checkEntry(e *Entry) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("entry %q: %s: %w", e.Name, fmt.Sprintf(format, args...), errInvalid)
	}
	switch {
	case e.Kind < KindFile || e.Kind > KindWhiteout:
		return bad("%s", e.Kind)
	case e.Mode > maxMode:
		return bad("mode %#o", e.Mode)
	case e.Size < 0:
		return bad("size %d", e.Size)
	case !validTime(e.MTime) || !validTime(e.Stamp.CTime):
		return bad("nanoseconds out of range")
	case e.Kind == KindSymlink && (e.Target == "" || len(e.Target) > maxTarget || strings.IndexByte(e.Target, 0) >= 0):
		return bad("link target of %d bytes", len(e.Target))
	case e.Kind == KindDir && e.Sub.ref.length == 0:
		return bad("directory without a node")
	case len(e.Xattrs) > maxXattrs:
		return bad("%d extended attributes", len(e.Xattrs))
	}
	if err := checkMarks(e); err != nil {
		return bad("%v", err)
	}
	for i, x := range e.Xattrs {
		if x.Name == "" || len(x.Name) > maxXattrName || strings.IndexByte(x.Name, 0) >= 0 || len(x.Value) > maxXattr {
			return bad("extended attribute %q", x.Name)
		}
		if i > 0 && e.Xattrs[i-1].Name >= x.Name {
			return bad("extended attribute %q is there twice or out of order", x.Name)
		}
	}
	if e.Layer != "" {
		if err := validLayer(e.Layer); err != nil {
			return fmt.Errorf("entry %q: %w", e.Name, err)
		}
	}
	return nil
}

func validTime(t fsx.Time) bool { return t.Nsec >= 0 && t.Nsec < nsecPerSec }

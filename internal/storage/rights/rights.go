// Package rights decides which metadata a file of a cell keeps when it is written
// to a directory of the host, besides its permission bits.
//
// Files are written as the operator's. Owners and POSIX access control lists of a
// cell are dropped: a file that replaces another takes over its owner and lists.
// Set-id bits of files and security.* attributes give rights, so the caller has
// to refuse them or strip them, unless the operator allows them.
//
// The package compares entries and writes nothing. It knows nothing of cells,
// of control files or of where a directory is.
package rights

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

const (
	setUID = 0o4000
	setGID = 0o2000
	setID  = setUID | setGID
)

// Operator is the user who owns the files that are written.
type Operator struct {
	UID, GID uint32
	// SetID means that the operator allows set-id bits. Those of directories are
	// then written; those of files are for Gain.
	SetID bool
}

// Self returns the operator of this process.
func Self(setID bool) Operator {
	return Operator{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), SetID: setID}
}

// Plain returns an entry without owner, access control lists and, if it is a
// directory, set-id bits that are not allowed: what a cell cannot write to a
// directory of the host. Two entries with equal plain forms differ in nothing
// that would be written.
func (o Operator) Plain(e tree.Entry) tree.Entry {
	e.Mode = plainMode(e)
	e.Xattrs = withoutLists(e)
	e.UID, e.GID = 0, 0
	if e.Kind == tree.KindDir && !o.SetID {
		e.Mode &^= setID
	}
	return e
}

// OnHost returns an entry of a cell as it is written on the host, and what of it
// is dropped, one readable text each. have is the host's entry of that name, and
// parent the directory above it, as it is or as it is written; both may be nil.
func (o Operator) OnHost(e tree.Entry, have, parent *tree.Entry) (onHost tree.Entry, dropped []string) {
	onHost = o.Plain(e)
	onHost.UID, onHost.GID = o.owner(have, parent)
	own := e.UID == o.UID && e.GID == o.GID || e.UID == onHost.UID && e.GID == onHost.GID
	if !own {
		dropped = append(dropped, fmt.Sprintf("owner %d:%d", e.UID, e.GID))
	}
	if text := droppedLists(&e, have); text != "" {
		dropped = append(dropped, text)
	}
	if have != nil && have.Kind == e.Kind {
		keepLists(&onHost, *have)
	}
	if e.Kind == tree.KindDir && !o.SetID {
		passed := passedOn(have, parent)
		onHost.Mode |= e.Mode & passed
		if lost := e.Mode & setID &^ passed; lost != 0 {
			dropped = append(dropped, fmt.Sprintf("mode %04o of the directory (setuid or setgid)", e.Mode))
		}
	}
	return onHost, dropped
}

// owner returns the owner of a written entry: one that replaces another takes over
// its owner, and a new one in a setgid directory its group, as if it had been
// written in place.
func (o Operator) owner(have, parent *tree.Entry) (uid, gid uint32) {
	switch {
	case have != nil:
		return have.UID, have.GID
	case parent != nil && parent.Mode&setGID != 0:
		return o.UID, parent.GID
	}
	return o.UID, o.GID
}

// passedOn returns the set-id bits that a directory may have: those that the
// host's directory has already, and for a new one the setgid bit of its parent.
func passedOn(have, parent *tree.Entry) uint32 {
	switch {
	case have != nil && have.Kind == tree.KindDir:
		return have.Mode & setID
	case have == nil && parent != nil:
		return parent.Mode & setGID
	}
	return 0
}

// keepLists adds the lists of the host's entry to an entry, as the kernel leaves
// them when the entry's mode is set.
func keepLists(onHost *tree.Entry, have tree.Entry) {
	kept := lists(&have)
	if len(kept) == 0 {
		return
	}
	if (onHost.Mode^plainMode(have))&0o070 == 0 { // the group's bits are the mask's
		onHost.Mode = onHost.Mode&^0o070 | have.Mode&0o070
	}
	all := slices.Clone(withoutLists(*onHost))
	for _, x := range kept {
		if x.Name == accessACL {
			x.Value = chmodACL(x.Value, onHost.Mode)
		}
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b fsx.Xattr) int { return strings.Compare(a.Name, b.Name) })
	onHost.Xattrs = all
}

// droppedLists describes how the lists of a cell's entry differ from the host's.
func droppedLists(e, have *tree.Entry) string {
	is, was := grantedEntries(e), grantedEntries(have)
	var more []string
	for _, text := range is {
		if !slices.Contains(was, text) {
			more = append(more, text)
		}
	}
	switch {
	case len(more) > 0:
		return "ACL " + strings.Join(more, ",")
	case have != nil && have.Kind == e.Kind && len(is) < len(was):
		return "removal of the ACL " + strings.Join(was, ",")
	}
	return ""
}

// Gain returns the right that an entry gives once it is written: set-id bits of a
// file, or a security.* attribute. It returns "" if there is none, or if the
// host's entry differs at most in its time. If only the contents differ, the right
// counts as new.
func Gain(onHost tree.Entry, have *tree.Entry) string {
	if onHost.Kind == tree.KindSymlink || have != nil && sameButTime(*have, onHost) {
		return ""
	}
	if onHost.Kind != tree.KindDir && onHost.Mode&setID != 0 {
		return fmt.Sprintf("mode %04o (setuid or setgid)", onHost.Mode)
	}
	for _, x := range onHost.Xattrs {
		if strings.HasPrefix(x.Name, "security.") {
			return "attribute " + x.Name
		}
	}
	return ""
}

// Strip takes from an entry what Gain names, and returns what it took.
func Strip(e tree.Entry) (stripped tree.Entry, taken []string) {
	for {
		gain := Gain(e, nil)
		if gain == "" {
			return e, taken
		}
		taken = append(taken, gain)
		if e.Kind != tree.KindDir && e.Mode&setID != 0 {
			e.Mode &^= setID
			continue
		}
		name := strings.TrimPrefix(gain, "attribute ")
		e.Xattrs = slices.DeleteFunc(slices.Clone(e.Xattrs), func(x fsx.Xattr) bool { return x.Name == name })
	}
}

// sameButTime compares all of two entries but when they were changed, and of
// directories what is in them.
func sameButTime(a, b tree.Entry) bool {
	same := slices.EqualFunc(a.Xattrs, b.Xattrs, func(x, y fsx.Xattr) bool { return x.Name == y.Name && bytes.Equal(x.Value, y.Value) })
	return same && a.Kind == b.Kind && a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID && a.Digest == b.Digest && a.Size == b.Size
}

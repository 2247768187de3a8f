package rights

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// The attributes in which the kernel keeps POSIX access control lists.
const (
	accessACL  = "system.posix_acl_access"
	defaultACL = "system.posix_acl_default"
)

// The tags of an entry of a list, as in the kernel's posix_acl_xattr.h.
const (
	tagUserObj  = 0x01
	tagUser     = 0x02
	tagGroupObj = 0x04
	tagGroup    = 0x08
	tagMask     = 0x10
	tagOther    = 0x20

	aclVersion   = 2
	aclHeader    = 4
	aclEntrySize = 8
)

// aclEntry is one line of a list.
type aclEntry struct {
	tag, perm uint16
	id        uint32
}

// parseACL reads the value of an attribute. A list that it cannot read has no
// entries and is not ok.
func parseACL(value []byte) (entries []aclEntry, ok bool) {
	if len(value) < aclHeader || (len(value)-aclHeader)%aclEntrySize != 0 || binary.LittleEndian.Uint32(value) != aclVersion {
		return nil, false
	}
	for b := value[aclHeader:]; len(b) > 0; b = b[aclEntrySize:] {
		entries = append(entries, aclEntry{
			tag: binary.LittleEndian.Uint16(b), perm: binary.LittleEndian.Uint16(b[2:]) & 7, id: binary.LittleEndian.Uint32(b[4:]),
		})
	}
	return entries, true
}

func formatACL(entries []aclEntry) []byte {
	b := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// ACLName returns what people call the access control list that an extended
// attribute holds, or "" if it holds none.
func ACLName(attribute string) string {
	switch attribute {
	case accessACL:
		return "ACL"
	case defaultACL:
		return "default ACL"
	}
	return ""
}

func isACL(name string) bool { return ACLName(name) != "" }

// ACLText returns a list as people write it: "user::rw-,user:65534:rwx,...".
// It reports false if the value is no list.
func ACLText(value []byte) (string, bool) {
	entries, ok := parseACL(value)
	if !ok {
		return "", false
	}
	parts := make([]string, len(entries))
	for i, e := range entries {
		parts[i] = e.String()
	}
	return strings.Join(parts, ","), true
}

func (e aclEntry) String() string {
	who, named := "", false
	switch e.tag {
	case tagUserObj, tagUser:
		who, named = "user", e.tag == tagUser
	case tagGroupObj, tagGroup:
		who, named = "group", e.tag == tagGroup
	case tagMask:
		who = "mask"
	case tagOther:
		who = "other"
	default:
		who = fmt.Sprintf("tag%d", e.tag)
	}
	id := ""
	if named {
		id = fmt.Sprint(e.id)
	}
	perm := []byte("---")
	for i, letter := range []byte("rwx") {
		if e.perm&(4>>i) != 0 {
			perm[i] = letter
		}
	}
	return who + ":" + id + ":" + string(perm)
}

// grantedEntries returns the named entries of both lists of e, readable and sorted:
// those that give rights to others than the owner and the owning group.
func grantedEntries(e *tree.Entry) []string {
	var out []string
	if e == nil {
		return nil
	}
	for _, x := range e.Xattrs {
		if !isACL(x.Name) {
			continue
		}
		prefix := ""
		if x.Name == defaultACL {
			prefix = "default:"
		}
		entries, ok := parseACL(x.Value)
		if !ok {
			out = append(out, prefix+"unreadable")
		}
		for _, a := range entries {
			if a.tag == tagUser || a.tag == tagGroup || prefix != "" {
				out = append(out, prefix+a.String())
			}
		}
	}
	slices.Sort(out)
	return out
}

// plainMode returns the mode that e has without its list. With a list, the
// group's bits of a mode are the list's mask and may be wider than what the
// owning group was given.
func plainMode(e tree.Entry) uint32 {
	i := slices.IndexFunc(e.Xattrs, func(x fsx.Xattr) bool { return x.Name == accessACL })
	if i < 0 {
		return e.Mode
	}
	entries, ok := parseACL(e.Xattrs[i].Value)
	group, mask := uint16(0), uint16(7)
	for _, a := range entries {
		switch a.tag {
		case tagGroupObj:
			group = a.perm
		case tagMask:
			mask = a.perm
		}
	}
	if !ok {
		group = 0
	}
	return e.Mode&^0o070 | uint32(group&mask)<<3
}

// chmodACL returns a list as the kernel leaves it when the mode is set.
func chmodACL(value []byte, mode uint32) []byte {
	entries, ok := parseACL(value)
	if !ok {
		return value
	}
	masked := slices.ContainsFunc(entries, func(a aclEntry) bool { return a.tag == tagMask })
	for i := range entries {
		switch a := &entries[i]; {
		case a.tag == tagUserObj:
			a.perm = uint16(mask3(mode >> 6))
		case a.tag == tagMask, a.tag == tagGroupObj && !masked:
			a.perm = uint16(mask3(mode >> 3))
		case a.tag == tagOther:
			a.perm = uint16(mask3(mode))
		}
	}
	return formatACL(entries)
}

func mask3(bits uint32) uint32 { return bits & 7 }

// lists returns the access control lists of an entry.
func lists(e *tree.Entry) []fsx.Xattr {
	var out []fsx.Xattr
	for _, x := range e.Xattrs {
		if isACL(x.Name) {
			out = append(out, x)
		}
	}
	return out
}

// withoutLists returns the other attributes of an entry.
func withoutLists(e tree.Entry) []fsx.Xattr {
	if !slices.ContainsFunc(e.Xattrs, func(x fsx.Xattr) bool { return isACL(x.Name) }) {
		return e.Xattrs
	}
	var out []fsx.Xattr
	for _, x := range e.Xattrs {
		if !isACL(x.Name) {
			out = append(out, x)
		}
	}
	return out
}

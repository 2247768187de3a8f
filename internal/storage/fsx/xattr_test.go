package fsx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// acl is a POSIX ACL as the kernel takes it: owner rwx, user 12 r--, group r-x,
// mask r-x, others none.
func acl() []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [][3]uint32{{1, 7, ^uint32(0)}, {2, 4, 12}, {4, 5, ^uint32(0)}, {0x10, 5, ^uint32(0)}, {0x20, 0, ^uint32(0)}} {
		b = binary.LittleEndian.AppendUint16(b, uint16(e[0]))
		b = binary.LittleEndian.AppendUint16(b, uint16(e[1]))
		b = binary.LittleEndian.AppendUint32(b, e[2])
	}
	return b
}

// own leaves out what the host adds by itself.
func own(list []Xattr) map[string]string {
	m := map[string]string{}
	for _, x := range list {
		if !strings.HasPrefix(x.Name, "security.") {
			m[x.Name] = string(x.Value)
		}
	}
	return m
}

func TestXattrs(t *testing.T) {
	t.Parallel()
	d, _ := tempRoot(t)
	put(t, d, "file", "x", 0o600)
	check(t, d.Mkdir("dir", 0o700))
	if list, err := d.Xattrs("file"); err != nil || len(own(list)) != 0 {
		t.Fatalf("none: %v, %v", list, err)
	}
	big := bytes.Repeat([]byte{0, 1, 255}, 500)
	check(t, d.SetXattr("file", "user.z", []byte("last")))
	check(t, d.SetXattr("file", "user.big", big))
	check(t, d.SetXattr("file", "user.empty", nil))
	check(t, d.SetXattr("file", "system.posix_acl_access", acl()))
	check(t, d.SetXattr("dir", "system.posix_acl_default", acl()))
	list, err := d.Xattrs("file")
	check(t, err)
	got := own(list)
	if len(got) != 4 || got["user.z"] != "last" || got["user.big"] != string(big) || got["user.empty"] != "" {
		t.Errorf("got %d attributes: %.60q", len(got), list)
	}
	if got["system.posix_acl_access"] != string(acl()) {
		t.Errorf("ACL: %x", got["system.posix_acl_access"])
	}
	f, err := d.OpenFile("file")
	check(t, err)
	defer func() { _ = f.Close() }()
	if same, err := FileXattrs(f); err != nil || len(own(same)) != 4 {
		t.Errorf("by descriptor: %v, %v", same, err)
	}
	sub, err := d.OpenDir("dir")
	check(t, err)
	defer func() { _ = sub.Close() }()
	check(t, sub.SetXattr(".", "user.self", []byte("1")))
	viaSelf, err := sub.Xattrs(".")
	check(t, err)
	viaName, err := d.Xattrs("dir")
	check(t, err)
	if len(own(viaSelf)) != 2 || len(own(viaName)) != 2 || own(viaName)["user.self"] != "1" {
		t.Errorf("directory: %v, %v", viaSelf, viaName)
	}
	check(t, d.RemoveXattr("file", "user.z"))
	check(t, d.RemoveXattr("file", "user.z"))
	check(t, sub.RemoveXattr(".", "user.self"))
	if list, err := d.Xattrs("file"); err != nil || len(own(list)) != 3 {
		t.Errorf("after removal: %v, %v", list, err)
	}
}

func TestXattrsOfLinks(t *testing.T) {
	t.Parallel()
	d, _ := tempRoot(t)
	put(t, d, "file", "x", 0o600)
	check(t, d.SetXattr("file", "user.file", []byte("1")))
	check(t, d.Symlink("file", "link"))
	if err := d.SetXattr("link", "user.a", []byte("1")); !errors.Is(err, unix.EPERM) {
		t.Errorf("a user attribute on a link: %v", err)
	}
	if list, err := d.Xattrs("link"); err != nil || len(own(list)) != 0 {
		t.Errorf("of the link: %v, %v", list, err)
	}
	needRoot(t)
	check(t, d.SetXattr("link", "trusted.note", []byte("on the link")))
	if list, err := d.Xattrs("link"); err != nil || own(list)["trusted.note"] != "on the link" {
		t.Errorf("of the link: %v, %v", list, err)
	}
	if list, err := d.Xattrs("file"); err != nil || len(own(list)) != 1 {
		t.Errorf("of the file: %v, %v", list, err)
	}
}

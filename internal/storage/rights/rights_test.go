package rights

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

const none = ^uint32(0)

// list makes a list of tag, permissions, id.
func list(entries ...[3]uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, uint16(e[0]))
		b = binary.LittleEndian.AppendUint16(b, uint16(e[1]))
		b = binary.LittleEndian.AppendUint32(b, e[2])
	}
	return b
}

func entry(kind tree.Kind, mode, id uint32, attrs ...fsx.Xattr) tree.Entry {
	return tree.Entry{Kind: kind, Mode: mode, UID: id, GID: id, Xattrs: attrs}
}

func access(v []byte) fsx.Xattr   { return fsx.Xattr{Name: accessACL, Value: v} }
func byRule(v []byte) fsx.Xattr   { return fsx.Xattr{Name: defaultACL, Value: v} }
func caps() fsx.Xattr             { return fsx.Xattr{Name: "security.capability", Value: []byte{1}} }
func userAttr(v string) fsx.Xattr { return fsx.Xattr{Name: "user.a", Value: []byte(v)} }

// everybody gives user 65534 all, and the group only reading: the mask, which
// the mode shows as the group's bits, is wider than that.
func everybody() []byte {
	return list([3]uint32{1, 6, none}, [3]uint32{2, 7, 65534}, [3]uint32{4, 4, none}, [3]uint32{16, 7, none}, [3]uint32{32, 4, none})
}

// hosts is a list of the host's own.
func hosts(owner, mask, other uint32) []byte {
	return list([3]uint32{1, owner, none}, [3]uint32{2, 6, 1234}, [3]uint32{4, 4, none}, [3]uint32{16, mask, none}, [3]uint32{32, other, none})
}

func TestLand(t *testing.T) {
	t.Parallel()
	me := Operator{UID: 500, GID: 500}
	ptr := func(e tree.Entry) *tree.Entry { return &e }
	file := tree.KindFile
	for name, c := range map[string]struct {
		who          Operator
		e            tree.Entry
		have, parent *tree.Entry
		want         tree.Entry
		dropped      []string
	}{
		"nothing odd":          {who: me, e: entry(file, 0o644, 500, userAttr("x")), want: entry(file, 0o644, 500, userAttr("x"))},
		"foreign owner":        {who: me, e: entry(file, 0o644, 65534), want: entry(file, 0o644, 500), dropped: []string{"owner 65534:65534"}},
		"replaces another's":   {who: me, e: entry(file, 0o600, 500), have: ptr(entry(file, 0o644, 7)), want: entry(file, 0o600, 7)},
		"keeps another's":      {who: me, e: entry(file, 0o600, 7), have: ptr(entry(file, 0o644, 7)), want: entry(file, 0o600, 7)},
		"list of the cell":     {who: me, e: entry(file, 0o674, 500, access(everybody())), want: entry(file, 0o644, 500), dropped: []string{"ACL user:65534:rwx"}},
		"list of no meaning":   {who: me, e: entry(file, 0o674, 500, access([]byte("x"))), want: entry(file, 0o604, 500), dropped: []string{"ACL unreadable"}},
		"default list":         {who: me, e: entry(tree.KindDir, 0o755, 500, byRule(list([3]uint32{1, 7, none}, [3]uint32{2, 7, 9}))), want: entry(tree.KindDir, 0o755, 500), dropped: []string{"ACL default:user:9:rwx,default:user::rwx"}},
		"list of the host":     {who: me, e: entry(file, 0o664, 500, access(hosts(6, 6, 4))), have: ptr(entry(file, 0o664, 500, access(hosts(6, 6, 4)))), want: entry(file, 0o664, 500, access(hosts(6, 6, 4)))},
		"chmod below a list":   {who: me, e: entry(file, 0o765, 500, access(hosts(7, 6, 5))), have: ptr(entry(file, 0o664, 500, access(hosts(6, 6, 4)))), want: entry(file, 0o765, 500, access(hosts(7, 6, 5)))},
		"replaced by a rename": {who: me, e: entry(file, 0o644, 500), have: ptr(entry(file, 0o664, 500, access(hosts(6, 6, 4)))), want: entry(file, 0o664, 500, access(hosts(6, 6, 4))), dropped: []string{"removal of the ACL user:1234:rw-"}},
		"another list":         {who: me, e: entry(file, 0o674, 500, access(everybody())), have: ptr(entry(file, 0o664, 500, access(hosts(6, 6, 4)))), want: entry(file, 0o664, 500, access(hosts(6, 6, 4))), dropped: []string{"ACL user:65534:rwx"}},
		"group of the parent":  {who: me, e: entry(tree.KindDir, 0o2755, 500), parent: ptr(entry(tree.KindDir, 0o2775, 9)), want: tree.Entry{Kind: tree.KindDir, Mode: 0o2755, UID: 500, GID: 9}},
		"setgid directory":     {who: me, e: entry(tree.KindDir, 0o2755, 500), parent: ptr(entry(tree.KindDir, 0o775, 9)), want: entry(tree.KindDir, 0o755, 500), dropped: []string{"mode 2755 of the directory (setuid or setgid)"}},
		"allowed":              {who: Operator{500, 500, true}, e: entry(tree.KindDir, 0o2755, 500), want: entry(tree.KindDir, 0o2755, 500)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, dropped := c.who.OnHost(c.e, c.have, c.parent)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.dropped, dropped); d != "" {
				t.Error(d)
			}
			// An entry that was written is written again unchanged, and is no change.
			if again, _ := c.who.OnHost(got, &got, c.parent); !cmp.Equal(again, got) {
				t.Errorf("it is written as %+v, then as %+v", got, again)
			}
		})
	}
}

func TestGain(t *testing.T) {
	t.Parallel()
	set := entry(tree.KindFile, 0o4755, 0)
	other := set
	other.Digest[0] = 1
	for name, c := range map[string]struct {
		e    tree.Entry
		have *tree.Entry
		want string
	}{
		"plain":           {e: entry(tree.KindFile, 0o755, 0, userAttr("x"))},
		"setuid":          {e: set, want: "mode 4755 (setuid or setgid)"},
		"the same":        {e: set, have: &set},
		"other contents":  {e: other, have: &set, want: "mode 4755 (setuid or setgid)"},
		"capability":      {e: entry(tree.KindFile, 0o755, 0, caps()), want: "attribute security.capability"},
		"directory":       {e: entry(tree.KindDir, 0o2755, 0)},
		"fifo":            {e: entry(tree.KindFifo, 0o2755, 0), want: "mode 2755 (setuid or setgid)"},
		"mode of symlink": {e: entry(tree.KindSymlink, 0o6777, 0)},
	} {
		if got := Gain(c.e, c.have); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	got, taken := Strip(entry(tree.KindFile, 0o6755, 0, caps(), userAttr("x")))
	if d := cmp.Diff(entry(tree.KindFile, 0o755, 0, userAttr("x")), got); d != "" || len(taken) != 2 {
		t.Errorf("%s %q", d, taken)
	}
}

func TestACLText(t *testing.T) {
	t.Parallel()
	got, ok := ACLText(everybody())
	if want := "user::rw-,user:65534:rwx,group::r--,mask::rwx,other::r--"; got != want || !ok {
		t.Errorf("%q, want %q", got, want)
	}
	for _, bad := range []string{"", "\x02\x00\x00", "\x03\x00\x00\x00", "\x02\x00\x00\x00\x01"} {
		if _, ok := ACLText([]byte(bad)); ok {
			t.Errorf("%q was taken for a list", bad)
		}
	}
}

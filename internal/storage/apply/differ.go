package apply

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// reason returns why a path that both sides changed is a conflict.
func (m *merger) reason(old, have, now *tree.Entry) string {
	side := m.sides()
	switch {
	case m.opt.Undo && old == nil:
		return "was made again since the apply deleted it"
	case m.opt.Undo && have == nil:
		return "was deleted since the apply"
	case m.opt.Undo && now == nil:
		return "was changed since the apply added it" + m.differences(old, have, thenAndNow)
	case m.opt.Undo:
		return "was changed since the apply" + m.differences(old, have, thenAndNow)
	case old == nil:
		return "was added on both sides, differently" + m.differences(have, now, side)
	case have == nil:
		return fmt.Sprintf("was deleted %s and changed %s%s", side.a, side.b, m.differences(old, now, beforeAndNow))
	case now == nil:
		return fmt.Sprintf("was deleted %s and changed %s%s", side.b, side.a, m.differences(old, have, beforeAndNow))
	}
	return "was changed on both sides, differently" + m.differences(have, now, side)
}

// sides returns the words for ours and theirs.
func (m *merger) sides() sideNames {
	if m.opt.Refresh {
		return sideNames{"in the cell", "in the directory"}
	}
	return sideNames{"in the directory", "in the cell"}
}

func (m *merger) differences(a, b *tree.Entry, names sideNames) string {
	a, b = m.plain(a, b)
	return differences(a, b, names, m.opt.Owners)
}

// sideNames are the words for two compared entries, as in "mode 0644 here, 0755 there".
type sideNames struct{ a, b string }

var (
	thenAndNow   = sideNames{"then", "now"}
	beforeAndNow = sideNames{"before", "now"}
)

// differences names what Equal finds different in two entries, as " (contents, mode
// 0644 then, 0755 now)". It is empty if one of them is missing: then that is the
// difference.
func differences(a, b *tree.Entry, names sideNames, owners bool) string {
	if a == nil || b == nil {
		return ""
	}
	var list []string
	add := func(differs bool, what string, x, y any) {
		if differs {
			list = append(list, fmt.Sprintf("%s %v %s, %v %s", what, x, names.a, y, names.b))
		}
	}
	if a.Kind != b.Kind || a.Kind == 0 {
		add(true, "type", kindName(a.Kind), kindName(b.Kind))
		return " (" + list[0] + ")"
	}
	if a.Digest != b.Digest || a.Kind == tree.KindFile && a.Size != b.Size {
		list = append(list, "contents")
	}
	add(a.Target != b.Target, "target", strconv.Quote(a.Target), strconv.Quote(b.Target))
	add(a.Kind != tree.KindSymlink && a.Mode != b.Mode, "mode", fmt.Sprintf("%04o", a.Mode), fmt.Sprintf("%04o", b.Mode))
	add(owners && (a.UID != b.UID || a.GID != b.GID), "owner", fmt.Sprintf("%d:%d", a.UID, a.GID), fmt.Sprintf("%d:%d", b.UID, b.GID))
	for _, name := range differentXattrs(a.Xattrs, b.Xattrs) {
		list = append(list, "attribute "+strconv.Quote(name))
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, "; ") + ")"
}

func kindName(k tree.Kind) string {
	if k == 0 {
		return "unknown"
	}
	return k.String()
}

// differentXattrs returns the names of the attributes in which two files differ.
func differentXattrs(a, b []fsx.Xattr) (names []string) {
	values := map[string][]byte{}
	for _, x := range b {
		values[x.Name] = x.Value
	}
	for _, x := range a {
		value, there := values[x.Name]
		delete(values, x.Name)
		if !ofTheHost(x.Name) && (!there || !bytes.Equal(value, x.Value)) {
			names = append(names, x.Name)
		}
	}
	for _, x := range b {
		if _, left := values[x.Name]; left && !ofTheHost(x.Name) {
			names = append(names, x.Name)
		}
	}
	return names
}

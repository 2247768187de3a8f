package tree

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// identity is the hash of docs/formats/identity.md, written a second time, plainly and
// without the code that it checks.
type identity struct {
	m       model
	times   bool
	changes bool // a tree of changes
}

func (id identity) sum(domain string, parts ...any) Hash {
	var b bytes.Buffer
	id.put(&b, domain)
	if domain != "forkcell.tree.v1 links" {
		if id.times {
			b.WriteByte('m')
		} else {
			b.WriteByte('r')
		}
	}
	for _, p := range parts {
		id.put(&b, p)
	}
	return sha256.Sum256(b.Bytes())
}

func (id identity) put(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case string:
		_ = binary.Write(b, binary.BigEndian, uint32(len(v)))
		b.WriteString(v)
	case Entry:
		id.entry(b, v, "")
	default:
		_ = binary.Write(b, binary.BigEndian, v)
	}
}

func (id identity) entry(b *bytes.Buffer, e Entry, p string) {
	kind := uint8(e.Kind)
	if e.Opaque {
		kind = 7
	}
	for _, v := range []any{e.Name, kind, e.Mode, e.UID, e.GID} {
		id.put(b, v)
	}
	size := uint64(0)
	switch e.Kind {
	case KindFile:
		size = uint64(e.Size)
	case KindSymlink:
		size = uint64(len(e.Target))
	}
	id.put(b, size)
	if id.times {
		id.put(b, e.MTime.Sec)
		id.put(b, e.MTime.Nsec)
	}
	switch e.Kind {
	case KindFile:
		b.Write(e.Digest[:])
	case KindSymlink:
		id.put(b, e.Target)
	case KindDir:
		h := id.dir(p, id.m.children(p), 0)
		b.Write(h[:])
	}
	id.put(b, uint32(len(e.Xattrs)))
	for _, x := range e.Xattrs {
		id.put(b, x.Name)
		id.put(b, string(x.Value))
	}
}

func (id identity) dir(p string, list []Entry, level int) Hash {
	var b bytes.Buffer
	if len(list) <= 64 {
		for _, e := range list {
			id.entry(&b, e, join(p, e.Name))
		}
		return id.sum("forkcell.tree.v1 leaf", uint32(len(list)), b.Bytes())
	}
	slots := make(map[byte][]Entry)
	for _, e := range list {
		digit := fmt.Sprintf("%x", sha256.Sum256([]byte(e.Name)))[level]
		n := byte(strings.IndexByte("0123456789abcdef", digit))
		slots[n] = append(slots[n], e)
	}
	var bits uint16
	for _, n := range slices.Sorted(maps.Keys(slots)) {
		bits |= 1 << n
		h := id.dir(p, slots[n], level+1)
		b.Write(h[:])
	}
	return id.sum("forkcell.tree.v1 branch", uint8(level), bits, b.Bytes())
}

func (id identity) area(l Links) Hash {
	var table bytes.Buffer
	for _, g := range l.Groups {
		id.put(&table, uint32(len(g)))
		for _, p := range g {
			id.put(&table, p)
		}
	}
	links := id.sum("forkcell.tree.v1 links", uint32(len(l.Groups)), table.Bytes())
	var root bytes.Buffer
	e := id.m["."]
	e.Name = ""
	id.entry(&root, e, ".")
	if id.changes {
		return id.sum("forkcell.tree.v1 changes", root.Bytes(), links[:])
	}
	return id.sum("forkcell.tree.v1 area", root.Bytes(), links[:])
}

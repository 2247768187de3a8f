package tree

import (
	"crypto/sha256"
	"encoding/binary"
)

// The domains keep hashes of different things apart. They are versioned: a
// change of the encoding below is a change of every domain.
const (
	domainLeaf   = "forkcell.tree.v1 leaf"
	domainBranch = "forkcell.tree.v1 branch"
	domainLinks  = "forkcell.tree.v1 links"
	domainArea   = "forkcell.tree.v1 area"
	// Of a tree of changes: it can never be taken for a whole one.
	domainChanges = "forkcell.tree.v1 changes"
)

// view is which of the two hashes is made: it follows the domain, so that a
// root can never be taken for a meta root.
type view byte

const (
	viewRoot view = 'r' // without modification times
	viewMeta view = 'm' // with them
)

func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

func appendDomain(b []byte, domain string, v view) []byte {
	return append(appendString(b, domain), byte(v))
}

// appendIdentity appends the identity of an entry. The entry must be canonical.
func appendIdentity(b []byte, e *Entry, v view) []byte {
	b = appendString(b, e.Name)
	b = append(b, identityKind(e))
	b = binary.BigEndian.AppendUint32(b, e.Mode)
	b = binary.BigEndian.AppendUint32(b, e.UID)
	b = binary.BigEndian.AppendUint32(b, e.GID)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Size))
	if v == viewMeta {
		b = binary.BigEndian.AppendUint64(b, uint64(e.MTime.Sec))
		b = binary.BigEndian.AppendUint32(b, uint32(e.MTime.Nsec))
	}
	switch e.Kind {
	case KindFile:
		b = append(b, e.Digest[:]...)
	case KindSymlink:
		b = appendString(b, e.Target)
	case KindDir:
		if v == viewMeta {
			b = append(b, e.Sub.Meta[:]...)
		} else {
			b = append(b, e.Sub.Root[:]...)
		}
	case KindFifo, KindSocket:
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(e.Xattrs)))
	for _, x := range e.Xattrs {
		b = appendString(b, x.Name)
		b = appendString(b, string(x.Value))
	}
	return b
}

func hashLeaf(entries []Entry, v view) Hash {
	b := make([]byte, 0, 64+128*len(entries))
	b = appendDomain(b, domainLeaf, v)
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries)))
	for i := range entries {
		b = appendIdentity(b, &entries[i], v)
	}
	return sha256.Sum256(b)
}

func hashBranch(depth int, kids *[fanOut]part, v view) Hash {
	b := make([]byte, 0, 64+fanOut*len(Hash{}))
	b = appendDomain(b, domainBranch, v)
	b = append(b, byte(depth))
	b = binary.BigEndian.AppendUint16(b, occupiedSlots(kids))
	for i := range kids {
		switch {
		case kids[i].absent():
		case v == viewMeta:
			b = append(b, kids[i].meta[:]...)
		default:
			b = append(b, kids[i].root[:]...)
		}
	}
	return sha256.Sum256(b)
}

// occupiedSlots has bit i set where slot i holds something.
func occupiedSlots(kids *[fanOut]part) uint16 {
	var bits uint16
	for i := range kids {
		if !kids[i].absent() {
			bits |= 1 << i
		}
	}
	return bits
}

func hashLinks(l Links) Hash {
	h := sha256.New()
	b := appendString(nil, domainLinks)
	b = binary.BigEndian.AppendUint32(b, uint32(len(l.Groups)))
	for _, g := range l.Groups {
		b = binary.BigEndian.AppendUint32(b, uint32(len(g)))
		for _, p := range g {
			b = appendString(b, p)
		}
		h.Write(b)
		b = b[:0]
	}
	h.Write(b)
	return Hash(h.Sum(nil))
}

// hashArea is the identity of a whole tree: its root's own metadata, all below
// it, and its hard links.
func hashArea(a *area, v view) Hash {
	domain := domainArea
	if a.changes {
		domain = domainChanges
	}
	b := appendDomain(nil, domain, v)
	b = appendIdentity(b, &a.entry, v)
	b = append(b, a.links.hash[:]...)
	return sha256.Sum256(b)
}

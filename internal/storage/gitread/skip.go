package gitread

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the hash of git's files
	"encoding/binary"
	"slices"
)

// WithSkipFlags returns an index with other skip-worktree flags: want returns the flag that an
// entry will have. If no flag changes, the result is the index itself, the same bytes.
// Everything else stays, except what git makes anew: the checksum, and the tables of
// offsets.
func WithSkipFlags(index []byte, want func(e IndexEntry) bool) ([]byte, error) {
	entries, err := ParseIndex(index)
	if err != nil {
		return nil, err
	}
	changed, extended := false, false
	for i, e := range entries {
		if is := e.IsSkipped(); is != want(e) {
			changed = true
			e.Flags ^= skipWorktree
		}
		if e.Flags >>= 16; e.Flags != 0 {
			extended = true
		}
		entries[i].Flags = e.Flags // the extended ones alone
	}
	if !changed {
		return index, nil
	}
	w := &indexWriter{version: binary.BigEndian.Uint32(index[4:])}
	from := &indexReader{rest: index[indexHeader : len(index)-sha1Size], version: w.version}
	if w.version < 4 {
		w.version = 2
		if extended {
			w.version = 3
		}
	}
	w.out = slices.Clone(index[:indexHeader])
	binary.BigEndian.PutUint32(w.out[4:], w.version)
	for _, e := range entries {
		raw := from.rest
		if _, err := from.entry(); err != nil {
			return nil, err
		}
		w.entry(raw[:len(raw)-len(from.rest)], e)
	}
	w.extensions(from.rest)
	sum := sha1.Sum(w.out) //nolint:gosec // as above
	return append(w.out, sum[:]...), nil
}

// IsSkipped reports whether an entry has the flag skip-worktree.
func (e IndexEntry) IsSkipped() bool { return e.Flags&skipWorktree != 0 }

// indexWriter writes an index. It is not larger than the one that is read, but for two
// bytes and padding for each entry.
type indexWriter struct {
	out     []byte
	version uint32
}

// entry writes an entry that has been read. The flags of e are the extended ones.
func (w *indexWriter) entry(raw []byte, e IndexEntry) {
	const fixed = statBytes + sha1Size
	flags := binary.BigEndian.Uint16(raw[fixed:])
	name := raw[fixed+2:]
	if flags&flagExtended != 0 {
		name = name[2:]
	}
	if w.version < 4 {
		name = name[:bytes.IndexByte(name, 0)] // the padding is made anew
	}
	size := fixed + 2 + len(name)
	w.out = append(w.out, raw[:fixed]...)
	if flags &^= flagExtended; e.Flags != 0 {
		w.out = binary.BigEndian.AppendUint16(w.out, flags|flagExtended)
		w.out = binary.BigEndian.AppendUint16(w.out, uint16(e.Flags))
		size += 2
	} else {
		w.out = binary.BigEndian.AppendUint16(w.out, flags)
	}
	w.out = append(w.out, name...)
	if w.version < 4 {
		w.out = append(w.out, make([]byte, size&^7+8-size)...)
	}
}

// extensions copies the extensions that remain true: not those with the offsets of
// entries.
func (w *indexWriter) extensions(rest []byte) {
	for len(rest) >= 8 {
		end := 8 + int(binary.BigEndian.Uint32(rest[4:]))
		if name := string(rest[:4]); name != "EOIE" && name != "IEOT" {
			w.out = append(w.out, rest[:end]...)
		}
		rest = rest[end:]
	}
}

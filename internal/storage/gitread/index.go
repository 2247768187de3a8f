package gitread

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxNameBytes bounds all names of one index, or of one commit, together.
const maxNameBytes = 256 << 20

// ErrSplit means that an index refers to another one for most of its entries.
var ErrSplit = errors.New("the index is split; `git update-index --no-split-index` joins it")

// IndexEntry is one line of an index, without the metadata by which git notices
// changes.
type IndexEntry struct {
	Name  string
	Mode  uint32
	ID    []byte
	Flags uint32 // stage, assume-valid, skip-worktree, intent-to-add
}

// The parts of an index.
const (
	indexHeader  = 12
	statBytes    = 40 // times, device, inode, mode, owner, size
	modeAt       = 24
	flagExtended = 0x4000
	nameMask     = 0x0fff
)

// ParseIndex reads an index of version 2, 3 or 4. It ignores optional extensions;
// an unknown one that is not optional is an error.
func ParseIndex(b []byte) ([]IndexEntry, error) {
	if len(b) < indexHeader+sha1Size || string(b[:4]) != "DIRC" {
		return nil, errors.New("not a git index")
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 {
		return nil, fmt.Errorf("unknown index version %d", version)
	}
	if uint64(count)*(statBytes+sha1Size+2) > uint64(len(b)) {
		return nil, io.ErrUnexpectedEOF
	}
	p := &indexReader{rest: b[indexHeader : len(b)-sha1Size], version: version}
	entries := make([]IndexEntry, 0, count)
	for range count {
		e, err := p.entry()
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, p.extensions()
}

type indexReader struct {
	rest    []byte
	version uint32
	last    string
	names   int
}

func (p *indexReader) entry() (IndexEntry, error) {
	size := statBytes + sha1Size + 2
	if len(p.rest) < size+2 {
		return IndexEntry{}, io.ErrUnexpectedEOF
	}
	flags := uint32(binary.BigEndian.Uint16(p.rest[size-2:]))
	e := IndexEntry{Mode: binary.BigEndian.Uint32(p.rest[modeAt:]), ID: p.rest[statBytes : statBytes+sha1Size], Flags: flags &^ nameMask}
	if flags&flagExtended != 0 {
		e.Flags |= uint32(binary.BigEndian.Uint16(p.rest[size:])) << 16
		size += 2
	}
	name := p.rest[size:]
	if p.version == 4 {
		strip, n := varint(name)
		if n == 0 || strip > len(p.last) {
			return e, io.ErrUnexpectedEOF
		}
		e.Name = p.last[:len(p.last)-strip]
		name, size = name[n:], size+n
	}
	end := bytes.IndexByte(name, 0)
	if end < 0 {
		return e, io.ErrUnexpectedEOF
	}
	// Each name may repeat the one before it and add a byte: a small file could
	// expand to terabytes of names.
	if p.names += len(e.Name) + end; p.names > maxNameBytes {
		return e, fmt.Errorf("more than %d bytes of names", maxNameBytes)
	}
	e.Name += string(name[:end])
	size += end + 1
	if p.version < 4 { // padded by one to eight zeros
		size = (size-1)&^7 + 8
	}
	if size > len(p.rest) {
		return e, io.ErrUnexpectedEOF
	}
	p.last, p.rest = e.Name, p.rest[size:]
	return e, nil
}

// extensions checks for extensions that change the meaning of the entries. By
// git's rule those whose names begin with a capital are optional.
func (p *indexReader) extensions() error {
	for len(p.rest) >= 8 {
		name, size := string(p.rest[:4]), binary.BigEndian.Uint32(p.rest[4:])
		if uint64(size) > uint64(len(p.rest)-8) {
			return io.ErrUnexpectedEOF
		}
		p.rest = p.rest[8+size:]
		switch {
		case name == "link":
			return ErrSplit
		case name == "sdir": // some entries stand for directories
		case name[0] < 'A' || name[0] > 'Z':
			return fmt.Errorf("unknown index extension %q", name)
		}
	}
	if len(p.rest) > 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// Meaning returns a digest of the entries.
func Meaning(entries []IndexEntry) [sha256.Size]byte {
	h := sha256.New()
	for _, e := range entries {
		fmt.Fprintf(h, "%d:%s %o %x %x\n", len(e.Name), e.Name, e.Mode, e.ID, e.Flags)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// varint reads git's variable-width number of offsets; n is 0 if there is none.
func varint(b []byte) (v, n int) {
	for n < len(b) && n < 8 {
		c := b[n]
		n++
		v = v<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return v, n
		}
		v++
	}
	return 0, 0
}

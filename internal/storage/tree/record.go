package tree

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// The types of records in a pack.
const (
	recordLeaf   = 1
	recordBranch = 2
	recordLinks  = 3
)

const (
	checkSize = 4                 // CRC-32C at the end of a record
	minRecord = 1 + 1 + checkSize // type, count, check
	maxRecord = 1 << 30
	minEntry  = 1 + 1 + 1 + 1 + 1 + 2 + 1 + 1 + 4 // of the shortest entry, content not counted
)

// checksum covers what the identity does not: places, layers, stamps, totals.
func checksum(b []byte) uint32 {
	return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
}

// finish appends the checksum of a record.
func (e *encoder) finish() ([]byte, error) {
	if len(e.b) > maxRecord-checkSize {
		return nil, fmt.Errorf("record of %d bytes: %w", len(e.b), errInvalid)
	}
	return binary.BigEndian.AppendUint32(e.b, checksum(e.b)), nil
}

// unwrap checks and removes the checksum of a record.
func unwrap(b []byte) ([]byte, error) {
	if len(b) < minRecord {
		return nil, errors.New("cut short")
	}
	n := len(b) - checkSize
	if binary.BigEndian.Uint32(b[n:]) != checksum(b[:n]) {
		return nil, errors.New("checksum does not match")
	}
	return b[:n:n], nil
}

// encodeBody appends the record of a leaf or of a branch whose kids are stored.
func (e *encoder) encodeBody(level int, b *body) {
	if b.kids == nil {
		e.byte(recordLeaf)
		e.uint(uint64(len(b.entries)))
		for i := range b.entries {
			e.entry(&b.entries[i])
		}
		return
	}
	e.byte(recordBranch)
	e.byte(byte(level))
	e.b = binary.BigEndian.AppendUint16(e.b, occupiedSlots(b.kids))
	for i := range b.kids {
		if k := &b.kids[i]; !k.absent() {
			e.hash(k.root)
			e.hash(k.meta)
			e.uint(uint64(k.entries))
			e.totals(k.totals)
			e.ref(k.ref)
		}
	}
}

func (d *decoder) decodeBody(level int) (*body, error) {
	switch d.byte() {
	case recordLeaf:
		b := &body{entries: d.entries()}
		return b, d.done()
	case recordBranch:
		b := &body{kids: d.kids(level)}
		return b, d.done()
	}
	d.fail("not a directory record")
	return nil, d.err
}

func (d *decoder) entries() []Entry {
	entries := make([]Entry, 0, d.count(maxLeaf, minEntry))
	for range cap(entries) {
		e := d.entry()
		if d.err != nil {
			return nil
		}
		if err := validName(e.Name); err != nil {
			d.fail(err.Error())
			return nil
		}
		if n := len(entries); n > 0 && entries[n-1].Name >= e.Name {
			d.fail("names are not in order")
			return nil
		}
		entries = append(entries, e)
	}
	return entries
}

func (d *decoder) kids(level int) *[fanOut]part {
	if int(d.byte()) != level || level >= maxLevel {
		d.fail("branch at another level")
	}
	var bits uint16
	if b := d.take(2); b != nil {
		bits = binary.BigEndian.Uint16(b)
	}
	kids := new([fanOut]part)
	for i := range kids {
		if bits&(1<<i) == 0 {
			continue
		}
		k := part{root: d.hash(), meta: d.hash()}
		n := d.size()
		k.totals = d.totals()
		k.entries = n
		k.ref = d.ref()
		if n == 0 {
			d.fail("empty slot")
		}
		if d.err != nil {
			return nil
		}
		kids[i] = k
	}
	if sumKids(kids).entries <= maxLeaf {
		d.fail("branch of few entries")
	}
	return kids
}

// entry appends an entry in the pack's form, which holds also what is no part
// of the identity.
func (e *encoder) entry(x *Entry) {
	e.string(x.Name)
	e.kind(x)
	e.uint(uint64(x.Mode))
	e.uint(uint64(x.UID))
	e.uint(uint64(x.GID))
	e.time(x.MTime)
	switch x.Kind {
	case KindFile:
		e.uint(uint64(x.Size))
		e.hash(x.Digest)
	case KindSymlink:
		e.string(x.Target)
	case KindDir:
		e.hash(x.Sub.Root)
		e.hash(x.Sub.Meta)
		e.totals(totals{files: x.Sub.Files, dirs: x.Sub.Dirs, bytes: x.Sub.Bytes})
		e.ref(x.Sub.ref)
	case KindFifo, KindSocket:
	}
	e.uint(uint64(len(x.Xattrs)))
	for _, a := range x.Xattrs {
		e.string(a.Name)
		e.string(string(a.Value))
	}
	e.layer(x.Layer)
	e.uint(x.Stamp.Ino)
	e.time(x.Stamp.CTime)
	e.uint(x.Stamp.Dev)
}

func (d *decoder) entry() Entry {
	var x Entry
	x.Name = d.string(maxName)
	d.kind(&x)
	x.Mode = uint32(d.uint(maxMode))
	x.UID = uint32(d.uint(math.MaxUint32))
	x.GID = uint32(d.uint(math.MaxUint32))
	x.MTime = d.time()
	switch x.Kind {
	case KindFile:
		x.Size = d.size()
		x.Digest = d.hash()
		x.PlainDigest = x.PlainDigest || d.version == 1 && x.Size > LargeFile
	case KindSymlink:
		x.Target = d.string(maxTarget)
		x.Size = int64(len(x.Target))
	case KindDir:
		x.Sub = Node{Root: d.hash(), Meta: d.hash()}
		t := d.totals()
		x.Sub.Files, x.Sub.Dirs, x.Sub.Bytes = t.files, t.dirs, t.bytes
		x.Sub.ref = d.ref()
	case KindFifo, KindSocket:
	}
	if n := d.count(maxXattrs, 2); n > 0 {
		x.Xattrs = make([]fsx.Xattr, n)
		for i := range x.Xattrs {
			x.Xattrs[i] = fsx.Xattr{Name: d.string(maxXattrName), Value: []byte(d.string(maxXattr))}
		}
	}
	x.Layer = d.layer()
	x.Stamp.Ino = d.uint(math.MaxUint64)
	x.Stamp.CTime = d.time()
	x.Stamp.Dev = d.uint(math.MaxUint64)
	if d.err == nil {
		if err := checkEntry(&x); err != nil {
			d.fail(err.Error())
		}
	}
	return x
}

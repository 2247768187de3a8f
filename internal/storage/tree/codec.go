package tree

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// encoder appends the pack's primitive values.
type encoder struct {
	b []byte
	// index returns the place of a layer in the pack's table.
	index func(layer string) uint64
}

func (e *encoder) byte(v byte)   { e.b = append(e.b, v) }
func (e *encoder) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)   { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) hash(h Hash)   { e.b = append(e.b, h[:]...) }

func (e *encoder) string(s string) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) time(t fsx.Time) {
	e.int(t.Sec)
	e.uint(uint64(t.Nsec))
}

// layer writes 0 for no layer, else the place in the table plus one.
func (e *encoder) layer(layer string) {
	if layer == "" {
		e.uint(0)
		return
	}
	e.uint(e.index(layer) + 1)
}

func (e *encoder) ref(r ref) {
	e.layer(r.layer)
	e.uint(uint64(r.offset))
	e.uint(uint64(r.length))
}

func (e *encoder) totals(t totals) {
	e.uint(uint64(t.files))
	e.uint(uint64(t.dirs))
	e.uint(uint64(t.bytes))
}

// decoder reads only what encoder writes: every value has exactly one encoding.
// The first error is kept; after it all values are zero.
type decoder struct {
	b   []byte
	err error
	// version is the pack's.
	version uint32
	// layers is the pack's table; the first is the pack's own layer.
	layers []string
	// start and end bound the records of this pack that may be referred to: a
	// record refers to earlier ones only.
	start, end int64
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = errors.New(what)
		d.b = nil
	}
}

// done fails when bytes are left over.
func (d *decoder) done() error {
	if len(d.b) > 0 {
		d.fail("bytes are left over")
	}
	return d.err
}

func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.fail("cut short")
	}
	if d.err != nil {
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *decoder) hash() (h Hash) {
	copy(h[:], d.take(len(h)))
	return h
}

func (d *decoder) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	switch {
	case d.err != nil:
		return 0
	case n <= 0:
		d.fail("cut short or oversized number")
		return 0
	case n > 1 && d.b[n-1] == 0:
		d.fail("number is not in its shortest form")
		return 0
	case v > limit:
		d.fail("number out of range")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	u := d.uint(math.MaxUint64)
	return int64(u>>1) ^ -int64(u&1)
}

func (d *decoder) size() int64 { return int64(d.uint(math.MaxInt64)) }

// count reads a number of items of which each takes at least min bytes, so that
// a wrong number cannot make the reader allocate memory.
func (d *decoder) count(limit, min int) int {
	n := int(d.uint(uint64(limit)))
	if n > len(d.b)/min {
		d.fail("count larger than the input")
		return 0
	}
	return n
}

func (d *decoder) string(limit int) string {
	return string(d.take(d.count(limit, 1)))
}

func (d *decoder) time() fsx.Time {
	return fsx.Time{Sec: d.int(), Nsec: int32(d.uint(nsecPerSec - 1))}
}

func (d *decoder) layer() string {
	i := d.uint(uint64(len(d.layers)))
	if i == 0 {
		return ""
	}
	return d.layers[i-1]
}

func (d *decoder) ref() ref {
	r := ref{layer: d.layer(), offset: d.size(), length: int64(d.uint(maxRecord))}
	switch {
	case d.err != nil:
		return ref{}
	case r.layer == "" || r.length < minRecord || r.offset < minHeader || r.offset > math.MaxInt64-r.length:
		d.fail("reference to no record")
	case r.layer == d.layers[0] && (r.offset < d.start || r.offset+r.length > d.end):
		d.fail("reference out of bounds")
	}
	return r
}

func (d *decoder) totals() (t totals) {
	t.files, t.dirs, t.bytes = d.size(), d.size(), d.size()
	return t
}

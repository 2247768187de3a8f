package eventquery

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"slices"
)

// ErrPosition is returned for the text of a position that is malformed, or of
// another stream.
var ErrPosition = errors.New("unknown position")

// position is a place in the stream of events. Every run with a number up to through
// was passed on whole, unless it is in open.
type position struct {
	through int64
	open    map[int64]mark // by number
}

// mark is a place in the journal of one run.
type mark struct {
	// tag identifies the run: after a power failure, another may get its number.
	tag      uint32
	sequence uint64
}

func tagOf(run string) uint32 { return crc32.ChecksumIEEE([]byte(run)) }

const (
	positionVersion = 1
	sumLen          = 6
	// maxOpen bounds the runs of a position that is read: the header of a request is
	// not longer.
	maxOpen = 1 << 16
)

// text returns the position as text that URLs and headers can have. stream
// identifies the stream.
func (p position) text(stream string) string {
	b := []byte{positionVersion}
	b = binary.AppendUvarint(b, uint64(p.through))
	b = binary.AppendUvarint(b, uint64(len(p.open)))
	last := int64(0)
	for _, number := range slices.Sorted(maps.Keys(p.open)) {
		m := p.open[number]
		b = binary.AppendUvarint(b, uint64(number-last))
		b = binary.BigEndian.AppendUint32(b, m.tag)
		b = binary.AppendUvarint(b, m.sequence)
		last = number
	}
	return base64.RawURLEncoding.EncodeToString(append(b, sumOf(stream, b)...))
}

// sumOf binds a position to its stream.
func sumOf(stream string, b []byte) []byte {
	sum := sha256.Sum256(append([]byte(stream+"\x00"), b...))
	return sum[:sumLen]
}

// parsePosition reads the text of a position.
func parsePosition(stream, text string) (position, error) {
	all, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(all) < 1+sumLen {
		return position{}, ErrPosition
	}
	b := all[:len(all)-sumLen]
	if b[0] != positionVersion || string(sumOf(stream, b)) != string(all[len(b):]) {
		return position{}, ErrPosition
	}
	r := numbers{b: b[1:]}
	p := position{through: int64(r.uvarint()), open: map[int64]mark{}}
	n := r.uvarint()
	if n > maxOpen {
		return position{}, ErrPosition
	}
	last := int64(0)
	for range n {
		last += int64(r.uvarint())
		p.open[last] = mark{tag: r.uint32(), sequence: r.uvarint()}
	}
	if r.bad || len(r.b) > 0 {
		return position{}, ErrPosition
	}
	return p, nil
}

// numbers reads numbers, and notes if there are too few bytes.
type numbers struct {
	b   []byte
	bad bool
}

func (r *numbers) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *numbers) uint32() uint32 {
	if len(r.b) < 4 {
		r.bad, r.b = true, nil
		return 0
	}
	n := binary.BigEndian.Uint32(r.b)
	r.b = r.b[4:]
	return n
}

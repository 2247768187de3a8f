package sshkey

import "encoding/binary"

// Reader reads the fields of a message. After the first field that is not there, all
// others are empty.
type Reader struct {
	rest []byte
	bad  bool
}

// NewReader returns a reader of a message, which it keeps.
func NewReader(b []byte) *Reader { return &Reader{rest: b} }

// take returns the next n bytes.
func (r *Reader) take(n int) []byte {
	if r.bad || n > len(r.rest) {
		r.bad, r.rest = true, nil
		return nil
	}
	out := r.rest[:n:n]
	r.rest = r.rest[n:]
	return out
}

// Byte returns the next byte.
func (r *Reader) Byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint32 returns the next number.
func (r *Reader) Uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// Bytes returns the next string. It is a part of the message.
func (r *Reader) Bytes() []byte {
	n := r.Uint32()
	if uint64(n) > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	return r.take(int(n))
}

// String returns the next string.
func (r *Reader) String() string { return string(r.Bytes()) }

// Bool returns the next truth value, which must be 0 or 1.
func (r *Reader) Bool() bool {
	b := r.Byte()
	if b > 1 {
		r.bad = true
	}
	return b == 1
}

// Ok reports whether all fields so far were there.
func (r *Reader) Ok() bool { return !r.bad }

// Done reports whether all fields were there and nothing follows them.
func (r *Reader) Done() bool { return !r.bad && len(r.rest) == 0 }

// AppendString appends a string with its length.
func AppendString[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

package authority

import (
	"encoding/binary"
	"errors"
)

var errLengths = errors.New("its lengths do not add up")

// checkLengths walks over a store in Java's own format (JKS) and fails unless
// every length in it stays within it. The library that reads stores takes a
// length of four bytes at its word and makes room for it, so that a few bytes
// from a root that somebody else made could ask for gigabytes.
func checkLengths(b []byte) error {
	w := walker{b: b}
	w.skip(4) // magic
	version := w.number(4)
	if version != 1 && version != 2 {
		return errors.New("an unknown version")
	}
	for n := w.number(4); n > 0 && !w.short; n-- {
		kind := w.number(4)
		w.skip(w.number(2)) // alias
		w.skip(8)           // date
		certificates := uint64(1)
		switch kind {
		case 1: // a private key, and its certificates
			w.skip(w.number(4))
			certificates = w.number(4)
		case 2: // a trusted certificate
		default:
			return errors.New("an unknown kind of entry")
		}
		for ; certificates > 0 && !w.short; certificates-- {
			if version == 2 {
				w.skip(w.number(2)) // type
			}
			w.skip(w.number(4))
		}
	}
	w.skip(20) // digest
	if w.short || len(w.b) > 0 {
		return errLengths
	}
	return nil
}

// walker goes over bytes and notes when there are too few.
type walker struct {
	b     []byte
	short bool
}

func (w *walker) skip(n uint64) {
	if w.short || n > uint64(len(w.b)) {
		w.short = true
		return
	}
	w.b = w.b[n:]
}

func (w *walker) number(size int) uint64 {
	if len(w.b) < size {
		w.short = true
	}
	if w.short {
		return 0
	}
	var full [8]byte
	copy(full[8-size:], w.b[:size])
	w.b = w.b[size:]
	return binary.BigEndian.Uint64(full[:])
}

package store

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"strings"
	"time"
)

// digits are those of Crockford's base 32, in which no letter looks like a
// digit.
const digits = "0123456789abcdefghjkmnpqrstvwxyz"

// NewID makes a unique name that sorts by its time. The order is only for
// people, and no two records are compared by it: a clock that jumps back does no harm. It is
// a ULID in small letters: 48 bits of milliseconds, then 80 random bits.
func NewID(prefix string) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(time.Now().UnixMilli())<<16)
	_, _ = rand.Read(b[6:]) // it never fails
	high, low := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	var text [26]byte
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = digits[low&31]
		high, low = high>>5, high<<59|low>>5
	}
	return prefix + "_" + string(text[:])
}

// IDTime returns when an id was made, by the clock of that moment; zero for a text that is no id.
func IDTime(id string) time.Time {
	const timeLen = 10 // of 26 digits
	_, text, _ := strings.Cut(id, "_")
	if len(text) != timeLen+randomLen {
		return time.Time{}
	}
	var ms int64
	for i := range timeLen {
		digit := strings.IndexByte(digits, text[i])
		if digit < 0 {
			return time.Time{}
		}
		ms = ms<<5 | int64(digit)
	}
	return time.UnixMilli(ms)
}

// The length of the random end of an id, and of the shortest part of it that
// may be used as a reference: a shorter one would often match by chance.
const (
	randomLen = 16
	minPart   = 4
)

// part splits a reference to an id into its kind, such as "chk_" or "", and the
// part of the random end.
func part(ref string) (kind, end string) {
	if i := strings.IndexByte(ref, '_'); i >= 0 {
		return ref[:i+1], ref[i+1:]
	}
	return "", ref
}

// isPart reports whether ref is a part of the random end of id, with or without
// the id's kind before it.
func isPart(id, ref string) bool {
	kind, end := part(ref)
	if len(end) < minPart || len(id) <= randomLen || !strings.HasPrefix(id, kind) {
		return false
	}
	return strings.Contains(id[len(id)-randomLen:], end)
}

// PickID returns the one id that a reference means: the id itself, a unique
// prefix of it, or else a unique part of its random end.
func PickID(ids []string, ref string) (string, error) {
	if slices.Contains(ids, ref) {
		return ref, nil
	}
	if ref == "" {
		return "", ErrNotFound
	}
	for _, fits := range []func(id, ref string) bool{strings.HasPrefix, isPart} {
		var found []string
		for _, id := range ids {
			if fits(id, ref) {
				found = append(found, id)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return "", ErrAmbiguous
		}
	}
	return "", ErrNotFound
}

package store

import (
	"crypto/rand"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"
)

// NewID makes a unique name that sorts by time of making, for people's eyes:
// nothing depends on that order, so a clock that jumps back does no harm.
func NewID(prefix string) string {
	return prefix + "_" + strings.ToLower(ulid.MustNew(ulid.Now(), rand.Reader).String())
}

// The random end of an id, and the shortest part of it that may stand for it: a
// shorter one would often fit by chance.
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

// PickID returns the one id that a reference stands for: the id itself, a unique
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

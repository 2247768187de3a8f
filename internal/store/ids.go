package store

import (
	"crypto/rand"
	"strings"

	"github.com/oklog/ulid/v2"
)

// NewID makes a unique name that sorts by time of making, for people's eyes:
// nothing depends on that order, so a clock that jumps back does no harm.
func NewID(prefix string) string {
	return prefix + "_" + strings.ToLower(ulid.MustNew(ulid.Now(), rand.Reader).String())
}

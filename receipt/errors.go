package receipt

import (
	"errors"
	"fmt"
)

// The kinds of doubt. Every error of this package that is about foreign bytes
// wraps exactly one of them.
var (
	// ErrMalformed: the bytes are not a statement, envelope, key or bundle of
	// this format, whoever signed them.
	ErrMalformed = errors.New("malformed")
	// ErrUntrusted: the statement names a signing key that is not trusted, or
	// that was replaced before the statement was made.
	ErrUntrusted = errors.New("no signature by a trusted key")
	// ErrBadSignature: a trusted key is named but its signature does not hold.
	ErrBadSignature = errors.New("bad signature")
	// ErrChain: the statements are sound one by one but do not fit together.
	ErrChain = errors.New("broken chain")
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrMalformed, fmt.Errorf(format, args...))
}

// Package credential keeps the operator's secrets out of a cell and puts them
// into the requests that may carry them. The cell sees placeholders: random
// texts, each for one credential of one run. When a request leaves the cell
// they are replaced by the value, only in requests to the credential's own
// endpoints, and only in the places there that the credential names. A placeholder
// that goes elsewhere, or stands anywhere else, is a misuse, and the request must be
// denied.
//
// Values come only from the operator's sources (see Source). They are never
// part of an error, a log line or anything that is formatted or encoded. They
// are overwritten when they are dropped. Copies in requests are Go strings,
// which cannot be overwritten and last until they are garbage-collected.
//
// The search finds a placeholder in plain text, percent-encoded (also twice),
// in base64 at any alignment, and, outside bodies, in another case. A program
// can hide one better than that but gains nothing: a placeholder is useless
// outside the cell. Compressed bodies are not searched.
//
// The package must not know cells, connections, or who decides about a request.
package credential

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// MaxValue bounds a value. Few servers accept longer headers.
const MaxValue = 32 << 10

// The reasons for refusing a value.
var (
	ErrEmpty   = errors.New("the value is empty")
	ErrControl = errors.New("the value holds a line end or another control character, which no header can carry")
	ErrTooLong = fmt.Errorf("the value is longer than %d bytes", MaxValue)
)

// redacted is printed in place of any value.
const redacted = "[credential]"

// Value is a secret. A function holds its bytes, because fmt follows pointers
// in some cases (%s of a pointer in an unexported field) without calling
// methods.
type Value struct{ open func() []byte }

func hold(b []byte) *Value { return &Value{func() []byte { return b }} }

// NewValue takes ownership of the bytes. On an error it overwrites them.
func NewValue(b []byte) (*Value, error) {
	err := checkValue(b)
	if err != nil {
		clear(b)
		return nil, err
	}
	return hold(b), nil
}

func checkValue(b []byte) error {
	switch {
	case len(b) == 0:
		return ErrEmpty
	case len(b) > MaxValue:
		return ErrTooLong
	}
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return ErrControl
		}
	}
	return nil
}

// Drop overwrites the value, which is empty afterwards.
func (v *Value) Drop() {
	clear(v.open())
	v.open = func() []byte { return nil }
}

func (v *Value) text() string { return string(v.open()) }

func (v *Value) clone() *Value { return hold(slices.Clone(v.open())) }

// Format writes the redacted text for every verb.
func (Value) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(redacted)) }

// String returns the redacted text.
func (Value) String() string { return redacted }

// GoString returns the redacted text.
func (Value) GoString() string { return redacted }

// MarshalText returns the redacted text, for encoders.
func (Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON returns the redacted text.
func (Value) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// LogValue returns the redacted text.
func (Value) LogValue() slog.Value { return slog.StringValue(redacted) }

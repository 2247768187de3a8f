// Package credential keeps the operator's secrets out of a cell and puts them
// into the requests that may carry them. The cell sees placeholders, random
// texts that stand for a credential of one run; on the way out they are replaced
// by the value, only in requests to the credential's own endpoints. A
// placeholder on its way to anywhere else is a misuse, and the request is to be
// denied.
//
// Values come from the operator's sources only (see Source) and never stand in
// an error, a log line or anything that is formatted or encoded. They are
// overwritten when they are dropped; copies that went into requests are Go
// strings, which cannot be, and last until the collector takes them.
//
// What is looked for: a placeholder as it is, percent-encoded (also twice), in
// base64 at any alignment, and, outside bodies, in another case. A program that
// means to can hide one better than that. It gains nothing: a placeholder is
// worth nothing outside the cell. Compressed bodies are not looked into.
//
// The package must not know cells, connections, or who decides about a request.
package credential

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// MaxValue bounds a value: much more than this no server takes in a header.
const MaxValue = 32 << 10

// Why a value is refused.
var (
	ErrEmpty   = errors.New("the value is empty")
	ErrControl = errors.New("the value holds a line end or another control character, which no header can carry")
	ErrTooLong = fmt.Errorf("the value is longer than %d bytes", MaxValue)
)

// redacted is what everything that prints a value shows.
const redacted = "[credential]"

// Value is a secret. Its bytes are held by a function, because fmt follows
// pointers in some cases (%s of a pointer in an unexported field), and may not
// call methods there.
type Value struct{ open func() []byte }

func hold(b []byte) *Value { return &Value{func() []byte { return b }} }

// NewValue takes the bytes over. On an error they are overwritten.
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

// Drop overwrites the value. It is empty from then on.
func (v *Value) Drop() {
	clear(v.open())
	v.open = func() []byte { return nil }
}

func (v *Value) text() string { return string(v.open()) }

func (v *Value) clone() *Value { return hold(slices.Clone(v.open())) }

// Format shows no verb anything.
func (Value) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(redacted)) }

// String returns a text that stands for any value.
func (Value) String() string { return redacted }

// GoString is as String.
func (Value) GoString() string { return redacted }

// MarshalText is as String; encoders use it.
func (Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON is as String.
func (Value) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// LogValue is as String.
func (Value) LogValue() slog.Value { return slog.StringValue(redacted) }

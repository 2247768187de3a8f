package cell

import (
	"errors"
	"fmt"
)

// Kind sorts failures by what the caller can do about them. The command line
// maps each to one exit code.
type Kind int

// The kinds of failure.
const (
	Failed   Kind = iota // it was tried and failed
	Usage                // a wrong value, name or argument
	NotFound             // no such cell, checkpoint, run, receipt or decision
	Refused              // a conflict, a failed verification, a control that cannot be enforced
	Busy                 // another process works on the cell
)

// Error is a failure that a person reads: what failed and why, and the next
// step.
type Error struct {
	Kind    Kind
	Code    string   // a short stable word for machines
	Message string   // what failed: why
	Hint    string   // what to do
	Details []string // every path or thing concerned, one line each
	Err     error
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Err }

// KindOf tells the kind of any error; errors of other origin are Failed.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Failed
}

// counted returns a number with its noun in the singular or the plural.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// withHint gives an error with a code another hint.
func withHint(err error, code, hint string) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Code == code {
		other := *e
		other.Hint = hint
		return &other
	}
	return err
}

func usage(hint, format string, args ...any) *Error {
	return &Error{Kind: Usage, Code: "usage", Message: fmt.Sprintf(format, args...), Hint: hint}
}

func notFound(what, name, hint string) *Error {
	return &Error{Kind: NotFound, Code: "not_found", Message: fmt.Sprintf("no such %s: %s", what, name), Hint: hint}
}

func refused(code, hint, format string, args ...any) *Error {
	return &Error{Kind: Refused, Code: code, Message: fmt.Sprintf(format, args...), Hint: hint}
}

func failed(code string, err error, format string, args ...any) *Error {
	return &Error{Kind: Failed, Code: code, Message: fmt.Sprintf(format, args...) + ": " + err.Error(), Err: err}
}

package api

import (
	"errors"
	"fmt"
	"strings"
)

// Kind sorts failures by what the caller can do about them.
type Kind string

// The kinds of failure. A later version may know more; treat those as Failed.
const (
	Failed   Kind = "failed"    // it was tried and failed
	Usage    Kind = "usage"     // a wrong value, name or argument
	NotFound Kind = "not_found" // no such cell, checkpoint, run, receipt or decision
	Refused  Kind = "refused"   // a conflict, a failed verification, a control that cannot be enforced
	Busy     Kind = "busy"      // another process works on the cell, or a limit is reached
)

// Known returns a kind as this version knows it: Failed for any other.
func (k Kind) Known() Kind {
	switch k {
	case Usage, NotFound, Refused, Busy:
		return k
	case Failed:
	}
	return Failed
}

// Error is a failure that a person reads: what failed and why, and the next step.
type Error struct {
	Kind Kind `json:"kind"`
	Code Code `json:"code"`
	// Message is what failed and why.
	Message string `json:"message"`
	// Hint is what to do.
	Hint string `json:"hint,omitempty"`
	// Details has every path or thing concerned, one line each.
	Details []string `json:"details,omitempty"`
	// Err is the cause, in the process where it happened.
	Err error `json:"-"`
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of any error; errors of other origin are Failed.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Failed
}

// CodeOf returns the code of an error; "" if it has none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// WithHint replaces the hint of an error that has the code, and returns any other
// error as it is.
func WithHint(err error, code Code, hint string) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Code == code {
		other := *e
		other.Hint = hint
		return &other
	}
	return err
}

// WithDetails adds details to an error, unless there are none or it is of other
// origin.
func WithDetails(err error, details []string) error {
	if e, ok := errors.AsType[*Error](err); ok && len(details) > 0 {
		other := *e
		other.Details = append(append([]string{}, e.Details...), details...)
		return &other
	}
	return err
}

// Usagef returns an error about a wrong value or argument.
func Usagef(hint, format string, args ...any) *Error {
	return &Error{Kind: Usage, Code: CodeUsage, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// Missing returns an error about a thing that does not exist.
func Missing(what, name, hint string) *Error {
	return &Error{Kind: NotFound, Code: CodeNotFound, Message: fmt.Sprintf("no such %s: %s", what, name), Hint: hint}
}

// NoReceipt returns the error of a caller who wants the latest receipt of a cell, or of all
// cells if the name is empty, where no run was made.
func NoReceipt(cell string) *Error {
	if cell == "" {
		return Missing("receipt", "no run was made yet", "`forkcell run CELL -- CMD` makes one")
	}
	return Missing("receipt", "no run was made in cell "+cell+" yet", "`forkcell receipt list` shows the receipts of all cells")
}

// Refusef returns an error about something that will not be done.
func Refusef(code Code, hint, format string, args ...any) *Error {
	return &Error{Kind: Refused, Code: code, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// Failf returns an error about something that was tried and failed with err. Errors
// that were joined are one line.
func Failf(code Code, err error, format string, args ...any) *Error {
	return &Error{Kind: Failed, Code: code, Message: fmt.Sprintf(format, args...) + ": " + strings.ReplaceAll(err.Error(), "\n", "; "), Err: err}
}

// Counted returns a number with its noun in the singular or the plural.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

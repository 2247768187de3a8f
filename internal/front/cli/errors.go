package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/document"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// errInterrupted is the error of a command that a signal stopped.
var errInterrupted = errors.New("interrupted")

// usageError returns an error about a wrong command line, with a hint about the
// right one.
func usageError(hint, format string, args ...any) *api.Error {
	return &api.Error{Kind: api.Usage, Code: api.CodeUsage, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// refusal is something that this version will not do.
func refusal(code api.Code, hint, format string, args ...any) *api.Error {
	return &api.Error{Kind: api.Refused, Code: code, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// errorBody is the error as --json shows it.
type errorBody struct {
	Kind    api.Kind `json:"kind"`
	Code    api.Code `json:"code"`
	Message string   `json:"message"`
	Hint    string   `json:"hint"`
	Details []string `json:"details"`
}

func bodyOf(err error) errorBody {
	if e, ok := errors.AsType[*api.Error](err); ok {
		// The text of the whole chain begins with the outermost error.
		return errorBody{Kind: e.Kind, Code: e.Code, Message: err.Error(), Hint: e.Hint, Details: e.Details}
	}
	code := api.CodeFailed
	if errors.Is(err, errInterrupted) {
		code = api.CodeInterrupted
	}
	return errorBody{Kind: api.Failed, Code: code, Message: err.Error()}
}

// printError writes a failure to stderr: one line, and one more per detail.
func printError(w io.Writer, err error, asJSON bool) {
	body := bodyOf(err)
	if asJSON {
		_ = document.Write(w, struct {
			Error errorBody `json:"error"`
		}{body})
		return
	}
	var b strings.Builder
	b.WriteString("forkcell: " + quote.Line(body.Message))
	if body.Hint != "" {
		b.WriteString("; " + quote.Line(body.Hint))
	}
	b.WriteByte('\n')
	for _, d := range body.Details {
		b.WriteString("  " + quote.Line(d) + "\n")
	}
	_, _ = io.WriteString(w, b.String())
}

// withoutDetails removes the details of a failure whose findings are on stdout already.
func withoutDetails(err error) error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		return err
	}
	c := *e
	c.Details = nil
	return &c
}

// withHint replaces the hint of an error.
func withHint(err error, hint string) error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		return err
	}
	c := *e
	c.Hint = hint
	return &c
}

// withInterruptHint gives an error of a command that a signal stopped a hint.
func withInterruptHint(err error, hint string) error {
	return &api.Error{Kind: api.Failed, Code: api.CodeInterrupted, Message: errInterrupted.Error(), Hint: hint, Err: err}
}

// joinErrors joins two errors in one line; the first decides the exit code.
func joinErrors(first, second error) error {
	switch {
	case first == nil:
		return second
	case second == nil, brokenPipe(second):
		return first
	default:
		return fmt.Errorf("%w; also: %s", first, second.Error())
	}
}

package client

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/answer"
	apicall "github.com/forkcell/forkcell/internal/api/call"
)

// Kind sorts failures by what the caller can do about them: "failed", "usage",
// "not_found", "refused" or "busy".
type Kind = api.Kind

// Code is a stable word for a failure, such as "not_found".
type Code = api.Code

// Error is a failure that the daemon reports, or that the client finds before it
// sends anything.
type Error struct {
	Kind   Kind
	Code   Code
	Status int // of HTTP; 0 if nothing was sent
	// Message says what failed and why.
	Message string
	// Hint says what to do.
	Hint string
	// Details has every path or field concerned, one line each.
	Details []string
	// RequestID is the id of the request in the log and the journal of the daemon.
	RequestID string
}

// shownDetails is how many details the text of an error has.
const shownDetails = 5

// Error returns what failed, with the first details and the hint, as one line in which all
// is visible: the text is the daemon's, and programs print it. The fields have it as it
// came.
func (e *Error) Error() string { return visible(e.text()) }

// visible escapes what cannot be seen in a text.
func visible(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }) {
		return text
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\ufffd") {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
	return b.String()
}

func (e *Error) text() string {
	text := e.Message
	if more := len(e.Details) - shownDetails; more > 0 {
		text += fmt.Sprintf(": %s; and %d more", strings.Join(e.Details[:shownDetails], "; "), more)
	} else if len(e.Details) > 0 {
		text += ": " + strings.Join(e.Details, "; ")
	}
	if e.Hint == "" {
		return text
	}
	return text + " (" + e.Hint + ")"
}

// HasCode reports whether an error is one of the daemon's with this code.
func HasCode(err error, code Code) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}

// requireSuccess returns an answer that reports success, or the error that it is.
func requireSuccess(resp *http.Response) (*http.Response, error) {
	p, failed := apicall.Problem(resp)
	switch {
	case !failed:
		return resp, nil
	case p.Code == "": // something else than a daemon answered
		return nil, &Error{Kind: api.Failed, Code: api.CodeProtocol, Status: resp.StatusCode, Message: "unexpected answer: " + resp.Status}
	default:
		return nil, problemError(p)
	}
}

// reasonProblem returns the problem of a socket that was closed with a reason, which is a
// code.
func reasonProblem(reason string) api.Problem {
	p := api.Problem{Kind: api.Failed, Code: Code(reason), Detail: "the command could not be followed to its end"}
	if p.Code == "" || answer.Check(p) != nil {
		p.Code = api.CodeProtocol
	}
	return p
}

func problemError(p api.Problem) *Error {
	return &Error{
		Kind: p.Kind.Known(), Code: p.Code, Status: p.Status, Message: p.Detail, Hint: p.Hint, Details: p.Details, RequestID: p.Instance,
	}
}

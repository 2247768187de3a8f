package remote

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// asEngineError converts a client's error to an api.Error.
func asEngineError[T any](doc T, err error) (T, error) { return doc, failure(err) }

// failure returns the error of a request as that of an engine: with its kind, which
// decides the exit code.
func failure(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if _, own := errors.AsType[*api.Error](err); own {
		return err
	}
	if p, ok := errors.AsType[*client.Error](err); ok {
		return reportedError(p)
	}
	cause := err
	if lost, ok := errors.AsType[*url.Error](err); ok {
		// Its text has the whole request.
		cause = lost.Err
		where, _, _ := strings.Cut(err.Error(), ": "+lost.Error())
		return &api.Error{
			Kind: api.Failed, Code: api.CodeUnreachable, Message: where + ": " + cause.Error(), Err: err,
			Hint: "forkcell serve starts a daemon; --url and FORKCELL_URL say where it is",
		}
	}
	return &api.Error{Kind: api.Failed, Code: api.CodeUnreachable, Message: err.Error(), Err: err, Hint: "the daemon may have carried it out; look with forkcell status and forkcell log"}
}

// reportedError returns a failure that the daemon reports.
func reportedError(p *client.Error) *api.Error {
	e := &api.Error{Kind: p.Kind, Code: p.Code, Message: p.Message, Hint: p.Hint, Details: p.Details}
	if p.Code == api.CodeExec {
		e.Err = &driver.StartError{Step: "exec", Cause: startCause(p.Message), Err: errors.New(p.Message)}
	}
	if p.Code == api.CodeInterrupted {
		e.Err = context.Canceled // as an engine says it
	}
	if p.Code == api.CodeProtocol && e.Hint == "" {
		e.Hint = "something else than a daemon may listen there; look at --url and FORKCELL_URL"
	}
	if name := unknownToDaemon(p.Details); name != "" {
		e.Message = "the daemon does not know " + name + ": it is of another version than this program"
		e.Hint = "leave the option out that needs it, or use the same version for both"
	}
	if p.Code == api.CodeUnauthenticated {
		e.Hint = "give the token with --token-file or FORKCELL_TOKEN_FILE"
	}
	return e
}

// unknownToDaemon returns the parameter or field that a daemon has refused because it has
// none of that name; "" for none. This program sends only those of its own version.
func unknownToDaemon(details []string) string {
	for _, d := range details {
		place, what, _ := strings.Cut(d, ": ")
		if what == "unknown query parameter" || what == "unexpected property" {
			return place[strings.LastIndexByte(place, '.')+1:]
		}
	}
	return ""
}

// startCause distinguishes a command that does not exist from one that cannot be executed.
func startCause(message string) driver.Cause {
	if strings.HasPrefix(message, "command not found") {
		return driver.CauseNotFound
	}
	return driver.CauseNotExecutable
}

package rest

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/text/document"
)

const problemType = "application/problem+json"

// problem is a problem document as an error of a route.
type problem struct {
	api.Problem
	header http.Header
}

func (p *problem) Error() string             { return p.Detail }
func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) GetHeaders() http.Header   { return p.header }
func (p *problem) ContentType(string) string { return problemType }

// problemOf returns the problem document of an engine's error. Errors without a
// code come from inside: their text may name paths of the host, so it goes to the
// log and not to the caller.
func (s *Server) problemOf(c *call, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		p.Instance = c.id
		return p
	}
	e, ok := errors.AsType[*api.Error](home.Explain(err))
	if !ok && errors.Is(err, context.Canceled) {
		// The caller has ended it, or is gone. What else failed meanwhile is in the log.
		s.logger.Info("request interrupted", "request", c.id, "error", err)
		if s.drain.isStopping() && s.work.Err() != nil {
			return s.problemOf(c, errDraining())
		}
		e, ok = &api.Error{Kind: api.Failed, Code: api.CodeInterrupted, Message: "interrupted"}, true
	}
	if !ok {
		s.logger.Error("request failed", "request", c.id, "error", err)
		return failedProblem(c)
	}
	if home.IsDiskFull(err) && e.Code != api.CodeDiskFull { // whatever the daemon was about to do
		full := *e
		full.Code, e = api.CodeDiskFull, &full
	}
	if !c.commands {
		e = s.rephrase(e)
	}
	p := newProblem(c.id, statusOf(e), e)
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		p = p.after(0)
	case http.StatusInternalServerError: // the caller may be gone
		s.logger.Error("request failed", "request", c.id, "code", e.Code, "error", err)
	}
	return p
}

// failedProblem returns the problem of a failure that the caller cannot be told.
func failedProblem(c *call) *problem {
	return newProblem(c.id, http.StatusInternalServerError, &api.Error{
		Kind: api.Failed, Code: api.CodeFailed, Message: "the operation failed", Hint: "the log of the daemon has the cause",
	})
}

func newProblem(id string, status int, e *api.Error) *problem {
	return &problem{Problem: api.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: e.Message,
		Kind: e.Kind, Code: e.Code, Hint: e.Hint, Details: append([]string{}, e.Details...), Instance: id,
	}}
}

// statusOf returns the HTTP status of an error, by the table of codes. A code may
// stand for a failure of the caller or of the daemon; the kind of the error decides.
func statusOf(e *api.Error) int {
	codes := api.Codes()
	at := slices.IndexFunc(codes, func(c api.CodeInfo) bool { return c.Code == e.Code })
	if at >= 0 && codes[at].Status != http.StatusInternalServerError {
		return codes[at].Status
	}
	switch e.Kind {
	case api.Usage:
		return http.StatusBadRequest
	case api.NotFound:
		return http.StatusNotFound
	case api.Busy:
		return http.StatusConflict
	case api.Refused:
		return http.StatusUnprocessableEntity
	case api.Failed:
	}
	return http.StatusInternalServerError
}

// libraryProblem makes the problem document of an error that the library found: a
// malformed body, a missing field, an unknown parameter.
func libraryProblem(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
	e := &api.Error{Kind: api.Usage, Code: api.CodeUsage, Message: msg, Hint: "see /docs"}
	switch status {
	case http.StatusUnprocessableEntity:
		status = http.StatusBadRequest
	case http.StatusRequestEntityTooLarge:
		e.Kind, e.Code = api.Refused, api.CodeTooLarge
	case http.StatusRequestTimeout:
		e.Kind, e.Code = api.Refused, api.CodeSlow
	case http.StatusNotAcceptable:
		e.Code = api.CodeNotAcceptable
	case http.StatusUnsupportedMediaType:
		e.Code = api.CodeMediaType
	case http.StatusInternalServerError:
		e.Kind, e.Code, e.Hint = api.Failed, api.CodeFailed, ""
	}
	for _, err := range errs {
		if own, ok := errors.AsType[*api.Error](err); ok { // the body could not be read
			e, status = own, statusOf(own)
			break
		}
		// The value that is wrong may be a secret: only its place is named.
		if d, ok := errors.AsType[*huma.ErrorDetail](err); ok {
			e.Details = append(e.Details, strings.TrimPrefix(d.Location+": "+d.Message, ": "))
		} else if err != nil {
			e.Details = append(e.Details, err.Error())
		}
	}
	id := ""
	if ctx != nil {
		id = callOf(ctx.Context()).id
	}
	return newProblem(id, status, e)
}

// writeDocument answers with one document.
func writeDocument(w http.ResponseWriter, status int, doc any) {
	var b bytes.Buffer
	if err := document.Write(&b, doc); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// writeProblem answers a request that reaches no route.
func writeProblem(w http.ResponseWriter, p *problem) {
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", problemType)
	writeDocument(w, p.Status, p.Problem)
}

// notFound answers for paths that no route has, or not with the method.
func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	if allowed := s.methods(r); len(allowed) > 0 {
		p := newProblem(c.id, http.StatusMethodNotAllowed, &api.Error{
			Kind: api.Usage, Code: api.CodeMethod, Message: "the resource does not take this method", Hint: "use " + strings.Join(allowed, " or "),
		})
		p.header = http.Header{"Allow": {strings.Join(allowed, ", ")}}
		writeProblem(w, p)
		return
	}
	writeProblem(w, newProblem(c.id, http.StatusNotFound, &api.Error{
		Kind: api.NotFound, Code: api.CodeNotFound, Message: "no such resource", Hint: "/openapi.json lists the resources",
	}))
}

// methods returns the methods that the path of a request takes. Of several patterns
// that match, as /v1/receipts/verify and /v1/receipts/{receipt}, the most exact counts.
func (s *Server) methods(r *http.Request) (allowed []string) {
	fewest := -1
	for _, method := range []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	} {
		_, pattern := s.mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host})
		names := strings.Count(pattern, "{")
		switch {
		case pattern == "" || pattern == "/" || fewest >= 0 && names > fewest:
			continue
		case names != fewest:
			fewest, allowed = names, nil
		}
		allowed = append(allowed, method)
	}
	return allowed
}

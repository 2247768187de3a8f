package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/network/egress/login"
	"github.com/forkcell/forkcell/internal/policy"
)

// Logins renews logins outside the cell: see [login.Logins].
type Logins interface {
	Covers(credential.Target) bool
	Renew(context.Context, *credential.Set, credential.Target, []byte, login.Send) (*login.Answer, error)
}

// renews reports whether a request goes to the token endpoint of a login.
func (p *Proxy) renews(f *flight) bool {
	return p.cfg.Logins != nil && f.view.gen.Credentials != nil && p.cfg.Logins.Covers(f.target())
}

// renew answers a request to a token endpoint. The program's request is not forwarded:
// the login is renewed on its behalf, and the answer holds placeholders.
func (p *Proxy) renew(w http.ResponseWriter, out *http.Request, f *flight) {
	body, err := tokenRequest(out)
	if err != nil {
		p.notRenewed(w, out, f, err)
		return
	}
	f.in.Store(int64(len(body)))
	got, err := p.cfg.Logins.Renew(out.Context(), f.view.gen.Credentials, f.target(), body, func(ctx context.Context, media string, body []byte) (int, []byte, error) {
		return p.askTokens(ctx, out, media, body)
	})
	if err != nil {
		p.notRenewed(w, out, f, err)
		return
	}
	f.use(got.Used)
	f.problem = got.Problem
	f.status.Store(int32(got.Status))
	f.out.Store(int64(len(got.Body)))
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(got.Body)))
	w.WriteHeader(got.Status)
	_, _ = w.Write(got.Body) // an error means that the program has gone
}

// tokenRequest reads the body of a request to a token endpoint.
func tokenRequest(r *http.Request) ([]byte, error) {
	if r.Method != http.MethodPost || r.Body == nil || r.Header.Get("Content-Encoding") != "" {
		return nil, &login.RefusedError{Reason: "a login is renewed by POST with a plain body"}
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(r.Body, login.MaxRequest+1))
	if err == nil && len(body) > login.MaxRequest {
		err = &login.RefusedError{Reason: "the request to renew a login is too long"}
	}
	return body, err
}

// askTokens sends a request to a token endpoint with the real tokens in its body.
func (p *Proxy) askTokens(ctx context.Context, like *http.Request, media string, body []byte) (int, []byte, error) {
	r := like.WithContext(ctx)
	where := *like.URL
	where.RawQuery = ""
	r.URL, r.Header = &where, like.Header.Clone()
	askPlain(r.Header)
	// What the program says of its body is not true of this one.
	maps.DeleteFunc(r.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Content-") })
	r.Header["Content-Type"] = []string{media}
	r.Body, r.ContentLength, r.GetBody, r.TransferEncoding, r.Trailer = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil, nil, nil
	if _, ok := r.Header["User-Agent"]; !ok {
		r.Header["User-Agent"] = []string{""} // none, instead of Go's own
	}
	res, err := p.pool.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if err := checkUnencoded(res); err != nil {
		return 0, nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(res.Body, login.MaxAnswer+1))
	if err == nil && len(answer) > login.MaxAnswer {
		err = errors.New("the answer of the token endpoint is too long")
	}
	return res.StatusCode, answer, err
}

// notRenewed answers a request whose login was not renewed.
func (p *Proxy) notRenewed(w http.ResponseWriter, r *http.Request, f *flight, err error) {
	var no *login.RefusedError
	if !errors.As(err, &no) {
		p.answerFailure(w, r, err)
		return
	}
	rule := "credentials"
	if no.Key != "" {
		rule += "." + no.Key
	}
	cut := &refusal{layer: layerCredential, Explanation: policy.Explanation{Rule: rule, Reason: no.Reason}, hint: no.Hint}
	f.stopped.Store(cut)
	p.writeRefusal(w, r, f, cut)
}

// Package login renews the logins of agents outside the cell.
//
// An agent keeps a login in a file with tokens that end after some time, and renews
// them at a token endpoint of its service. In a cell the file holds placeholders. A
// request to the token endpoint ends here: the login of the host is renewed, once for
// all sessions, and the answer that the cell gets has placeholders in place of tokens.
//
// The package must not know cells, connections, or who decides about a request.
package login

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
)

// The bounds of a request to a token endpoint and of its answer.
const (
	MaxRequest = 64 << 10
	MaxAnswer  = 256 << 10
	maxFile    = 1 << 20
)

// RefusedError is the reason why a login is not renewed.
type RefusedError struct {
	// Key is the credential of the login.
	Key    string
	Reason string
	Hint   string
}

func (e *RefusedError) Error() string { return e.Reason }

// Send sends a body of a media type to the token endpoint, and returns the status and
// the body of the answer.
type Send func(ctx context.Context, media string, body []byte) (status int, answer []byte, err error)

// Answer is the answer that the cell gets.
type Answer struct {
	Status int
	Body   []byte
	// Used are the names of the credentials whose values were sent.
	Used []string
	// Problem is what went wrong although the login was renewed; "" if nothing.
	Problem string
}

// Logins are those of one run.
type Logins struct {
	// List has the logins.
	List []api.Login
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Covers reports whether a request goes to a token endpoint.
func (l Logins) Covers(to credential.Target) bool {
	login, _ := l.find(to)
	return login != nil
}

func (l Logins) find(to credential.Target) (*api.Login, *api.TokenEndpoint) {
	if !to.Secure {
		return nil, nil
	}
	for i := range l.List {
		for j := range l.List[i].Refresh {
			if e := &l.List[i].Refresh[j]; e.Host == to.Host && e.Port == to.Port && e.Path == to.Path {
				return &l.List[i], e
			}
		}
	}
	return nil, nil
}

// Renew answers a request to a token endpoint. Only one session of this host renews a
// login at a time; the others take the tokens that it got. The error is a
// *RefusedError if the login may not be renewed, or one of send.
func (l Logins) Renew(ctx context.Context, set *credential.Set, to credential.Target, body []byte, send Send) (*Answer, error) {
	login, endpoint := l.find(to)
	if login == nil {
		return nil, errors.New("no token endpoint")
	}
	r := renewal{login: login, endpoint: endpoint, set: set, now: time.Now}
	if l.Now != nil {
		r.now = l.Now
	}
	passed, err := r.checkRequest(body)
	if err != nil {
		return nil, err
	}
	file, err := lock(ctx, string(login.File))
	if err != nil {
		return nil, r.refusal("log in on the host", "the login of the host cannot be used: %s", err)
	}
	defer file.close()
	tokens, err := r.read(file)
	if err != nil {
		return nil, err
	}
	// A program that asks again and again does not make the service replace tokens.
	if !r.hasEnded(tokens) && (!r.isKnown(tokens) || r.recent(file)) {
		return r.adopt(file, tokens)
	}
	if !login.WriteBack {
		return nil, r.refusal("log in on the host again, or allow it: forkcell auth set ... --ack-write-back",
			"the login %s can be renewed only on the host: writing it back is not acknowledged", login.Key)
	}
	return r.exchange(ctx, file, tokens, passed, send)
}

// renewal is one renewal of a login.
type renewal struct {
	login    *api.Login
	endpoint *api.TokenEndpoint
	set      *credential.Set
	now      func() time.Time
}

func (r *renewal) refusal(hint, format string, args ...any) error {
	return &RefusedError{Key: r.login.Key, Reason: fmt.Sprintf(format, args...), Hint: hint}
}

// token returns the token at a place of the file.
func (r *renewal) token(place string) (api.LoginToken, bool) {
	for _, t := range r.login.Tokens {
		if t.Place == place {
			return t, true
		}
	}
	return api.LoginToken{}, false
}

// grantType is that of a request which renews a login.
const grantType = "refresh_token"

// checkRequest accepts only a body that renews with the placeholders of the login, and
// returns the fields of it that are sent to the service.
func (r *renewal) checkRequest(body []byte) (passed map[string]string, err error) {
	found, err := fieldsOf(body, r.endpoint.Form)
	if err != nil {
		return nil, r.refusal("", "the request to renew the login %s %s", r.login.Key, err)
	}
	holds := found["grant_type"] == grantType
	for key, place := range r.endpoint.Request {
		t, _ := r.token(place)
		holds = holds && r.set.Holds(t.Credential, found[key])
	}
	if !holds {
		return nil, r.refusal("", "the request to %s does not renew the login %s", r.endpoint.Host, r.login.Key)
	}
	passed = map[string]string{}
	for _, key := range append([]string{"client_id"}, r.endpoint.Passed...) {
		if text := found[key]; text != "" {
			passed[key] = text
		}
	}
	return passed, nil
}

// read returns the values of the host's file, by place.
func (r *renewal) read(file *hostFile) (places, error) {
	found, err := locate(file.text)
	if err != nil {
		return nil, r.refusal("log in on the host again", "the login of the host is not as it should be: %s", err)
	}
	for _, place := range r.endpoint.Request {
		if found[place].text == "" {
			return nil, r.refusal("log in on the host again", "the login of the host has no %s", place)
		}
	}
	return found, nil
}

// isKnown reports whether the cell's proxy already uses the tokens of the host's file.
func (r *renewal) isKnown(found places) bool {
	for _, place := range r.endpoint.Request {
		if t, ok := r.token(place); ok && !r.set.IsCurrent(t.Credential, found[place].text) {
			return false
		}
	}
	return true
}

// recent reports whether the host's file was written within the last minute.
func (r *renewal) recent(file *hostFile) bool {
	age := r.now().Sub(file.written)
	return age >= 0 && age < time.Minute
}

// adopt answers with tokens that another session, or the host, has renewed already.
func (r *renewal) adopt(file *hostFile, found places) (*Answer, error) {
	answer := map[string]any{"token_type": "Bearer"}
	if list := scopes(file.text, r.login.Scopes); list != "" {
		answer["scope"] = list
	}
	for key, place := range r.endpoint.Answer {
		answer[key] = found[place].text
	}
	if end, ok := r.end(found); ok {
		answer["expires_in"] = math.Floor(end.Sub(r.now()).Seconds())
	}
	fields, problem := r.show(answer)
	out := &Answer{Status: http.StatusOK, Body: encode(fields), Problem: problem}
	return out, r.checkEcho(out.Body)
}

// use makes a value the one that is sent, and returns its placeholder.
func (r *renewal) use(t api.LoginToken, value string) (string, error) {
	v, err := credential.NewValue([]byte(value))
	if err != nil {
		return "", err
	}
	return r.set.Renew(t.Credential, v, credential.LeadOf(value, t.Lead))
}

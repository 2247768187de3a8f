package login

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// exchange renews the login at its service.
func (r *renewal) exchange(ctx context.Context, file *hostFile, old places, body []byte, send Send) (*Answer, error) {
	if err := file.writable(); err != nil {
		// Else the service would replace the tokens, and the new ones would be lost.
		return nil, r.refused("", "the login of the host cannot be written back: %s", err)
	}
	var used []string
	real := map[string]any{}
	for key, place := range r.endpoint.Request {
		t, _ := r.token(place)
		used = append(used, t.Credential)
		real[key] = old[place].text
	}
	slices.Sort(used)
	sent, err := splice(body, real)
	if err != nil {
		return nil, err
	}
	status, answer, err := send(ctx, sent)
	clear(sent)
	if err != nil {
		return nil, err
	}
	out := &Answer{Status: status, Body: answer, Used: used}
	if status == http.StatusOK {
		if out.Body, out.Problem, err = r.store(file, old, answer); err != nil {
			return nil, err
		}
	}
	if echo := r.set.Echo(); echo != nil && echo.Found(out.Body) {
		return nil, r.refused("", "the answer of %s repeats a credential where none belongs", r.endpoint.Host)
	}
	return out, nil
}

// store writes the new tokens to the host's file, makes them those that are sent, and
// returns the answer with placeholders. The problem is a failure to write: the session
// goes on with the new tokens, since the old ones may have ended.
func (r *renewal) store(file *hostFile, old places, answer []byte) (shown []byte, problem string, err error) {
	got, err := locate(answer)
	if err != nil {
		return nil, "", r.refused("", "the answer of %s is not a JSON object: %s", r.endpoint.Host, err)
	}
	host, cell := map[string]any{}, map[string]any{}
	for key, place := range r.endpoint.Answer {
		v, ok := got[key]
		if !ok {
			continue // a token that stays
		}
		if v.text == "" {
			return nil, "", r.refused("", "the answer of %s has no text for %s", r.endpoint.Host, key)
		}
		if cell[key], err = r.renew(place, v.text); err != nil {
			return nil, "", err
		}
		if _, there := old[place]; there {
			host[place] = v.text
		}
	}
	if at, ok := old[r.login.Expires]; ok && at.number != "" {
		if seconds, err := strconv.ParseInt(got["expires_in"].number, 10, 32); err == nil {
			host[r.login.Expires] = r.now().Add(time.Duration(seconds) * time.Second).UnixMilli()
		}
	}
	if _, ok := old[lastRefresh]; ok {
		host[lastRefresh] = r.now().UTC().Format(time.RFC3339Nano)
	}
	text, err := splice(file.text, host)
	if err == nil {
		err = file.write(text)
	}
	if err != nil {
		problem = fmt.Sprintf("the renewed login was not written to the host: %s", err)
	}
	shown, err = splice(answer, cell)
	return shown, problem, err
}

// lastRefresh is where codex keeps the time of the last renewal.
const lastRefresh = "last_refresh"

// ended reports whether the tokens of a file have ended, or end within a minute.
func (r *renewal) ended(found places) bool {
	end, ok := r.end(found)
	return ok && !end.After(r.now().Add(time.Minute))
}

// end returns when the tokens end: a number of milliseconds, or the claim of a JWT.
func (r *renewal) end(found places) (time.Time, bool) {
	at, ok := found[r.login.Expires]
	if !ok {
		return time.Time{}, false
	}
	if ms, err := strconv.ParseInt(at.number, 10, 64); err == nil {
		return time.UnixMilli(ms), true
	}
	parts := strings.Split(at.text, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Exp int64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(text, &claims) != nil || claims.Exp == 0 {
		return time.Time{}, false
	}
	return time.Unix(claims.Exp, 0), true
}

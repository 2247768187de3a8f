package login

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxExchange bounds a request to the service and what follows it. It does not end
// with the caller: the service may have replaced the tokens already, and the new ones
// are then only in its answer.
const maxExchange = time.Minute

// exchange renews the login at its service. Of the cell's request only the fields that
// the adapter names are sent, beside the tokens of the host.
func (r *renewal) exchange(ctx context.Context, file *hostFile, old places, passed map[string]string, send Send) (*Answer, error) {
	if err := file.writable(); err != nil {
		// Else the service would replace the tokens, and the new ones would be lost.
		return nil, r.refusal("", "the login of the host cannot be written back: %s", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxExchange)
	defer cancel()
	var used []string
	fields := maps.Clone(passed)
	fields["grant_type"] = grantType
	for key, place := range r.endpoint.Request {
		t, _ := r.token(place)
		// The host may have renewed it. Answers are searched for what was sent.
		if _, err := r.use(t, old[place].text); err != nil {
			return nil, r.refusal("log in on the host again", "the login of the host cannot be used: %s: %s", place, err)
		}
		used = append(used, t.Credential)
		fields[key] = old[place].text
	}
	slices.Sort(used)
	media, sent := bodyOf(fields, r.endpoint.Form)
	status, body, err := send(ctx, media, sent)
	clear(sent)
	if err != nil {
		return nil, err
	}
	var answer map[string]any
	if err := json.Unmarshal(body, &answer); err != nil {
		answer = nil // some errors of a service are pages
	}
	out := &Answer{Status: status, Used: used}
	switch {
	case !success(status):
		out.Body = encode(failure(answer))
	case answer == nil:
		return nil, r.refusal("", "the answer of %s is not a JSON object", r.endpoint.Host)
	default:
		// The host's file comes first: whatever follows, the new tokens are not lost.
		stored := r.store(file, old, answer)
		fields, shown := r.show(answer)
		out.Body, out.Problem = encode(fields), join(stored, shown)
	}
	return out, r.checkEcho(out.Body)
}

func success(status int) bool { return status >= http.StatusOK && status < http.StatusMultipleChoices }

// join joins problems that are not "".
func join(problems ...string) string {
	return strings.Join(slices.DeleteFunc(problems, func(p string) bool { return p == "" }), "; ")
}

// checkEcho refuses an answer for the cell that holds a value.
func (r *renewal) checkEcho(body []byte) error {
	if r.set.Repeated(body) {
		return r.refusal("", "the answer of %s repeats a credential where none belongs", r.endpoint.Host)
	}
	return nil
}

// store writes the new tokens to the host's file. It returns why it could not, "" if
// it could: the session goes on with the new tokens, since the old ones may have ended.
func (r *renewal) store(file *hostFile, old places, answer map[string]any) (problem string) {
	const failed = "the renewed login was not written to the host: "
	// Programs of the host may have written the file meanwhile.
	if err := file.read(); err != nil {
		return failed + err.Error()
	}
	found, err := locate(file.text)
	if err != nil {
		return failed + err.Error()
	}
	for _, place := range r.endpoint.Request {
		if found[place].text != old[place].text {
			return failed + "its file has another login now"
		}
	}
	values := map[string]any{}
	for key, place := range r.endpoint.Answer {
		text, _ := answer[key].(string)
		if _, there := found[place]; there && text != "" {
			values[place] = text
		}
	}
	if seconds, ok := answer["expires_in"].(float64); ok && found[r.login.Expires].number != "" && math.Abs(seconds) <= math.MaxInt32 {
		values[r.login.Expires] = r.now().Add(time.Duration(seconds) * time.Second).UnixMilli()
	}
	if _, ok := found[lastRefresh]; ok {
		values[lastRefresh] = r.now().UTC().Format(time.RFC3339Nano)
	}
	text, err := splice(file.text, values)
	if err == nil {
		err = file.write(text)
	}
	if err != nil {
		return failed + err.Error()
	}
	return ""
}

// show makes the tokens of an answer those that are sent, and returns what the cell
// gets: placeholders, and fields that hold no token. A token that the session cannot
// use is left out, and named in the problem unless the login never had it.
func (r *renewal) show(answer map[string]any) (fields map[string]any, problem string) {
	fields = texts(answer, "token_type", "scope")
	if seconds, ok := answer["expires_in"].(float64); ok {
		fields["expires_in"] = seconds
	}
	var problems []string
	for key, place := range r.endpoint.Answer {
		text, _ := answer[key].(string)
		t, ok := r.token(place)
		if !ok || text == "" {
			continue
		}
		placeholder, err := r.use(t, text)
		if err != nil {
			problems = append(problems, fmt.Sprintf("the session cannot use the new token %s: %s", place, err))
			continue
		}
		fields[key] = placeholder
	}
	slices.Sort(problems)
	return fields, join(problems...)
}

// failure returns what the cell gets of an error: the texts that name it.
func failure(answer map[string]any) map[string]any {
	out := texts(answer, "error", "error_description", "code")
	if object, ok := answer["error"].(map[string]any); ok {
		out["error"] = texts(object, "code", "type", "message")
	}
	return out
}

// texts returns the texts of an object that have some keys.
func texts(object map[string]any, keys ...string) map[string]any {
	out := map[string]any{}
	for _, key := range keys {
		if text, ok := object[key].(string); ok {
			out[key] = text
		}
	}
	return out
}

// lastRefresh is where codex keeps the time of the last renewal.
const lastRefresh = "last_refresh"

// hasEnded reports whether the tokens of a file have ended, or end within a minute.
func (r *renewal) hasEnded(found places) bool {
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

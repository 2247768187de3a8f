package credential

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/policy"
)

// The parts of a request whose text a service may keep as a whole.
const (
	partBody    = "body"
	partMessage = "message"
)

// exact returns the entry whose placeholder, with or without a lead, is the whole
// text; nil if it is anything else.
func (s *Set) exact(text string) *entry {
	at := len(text) - length
	if at < 0 || !looksLikePlaceholder([]byte(text[at:])) {
		return nil
	}
	e := s.find([]byte(text[at:]))
	if e == nil {
		return nil
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	if at > 0 && !slices.Contains(e.leads, text[:at]) {
		return nil
	}
	return e
}

// fillHeader returns a header's value with its placeholders replaced by what text
// returns for their credentials. A placeholder counts only if the credential names the
// header and the value is the placeholder alone, behind a scheme, or the user or
// password of basic authentication. Everything else is returned as it is.
func (s *Set) fillHeader(name, v string, text func(*entry) string) string {
	named := func(part string) *entry {
		e := s.exact(part)
		if e == nil || !slices.Contains(e.ReplaceInHeaders, name) {
			return nil
		}
		return e
	}
	if e := named(v); e != nil {
		return text(e)
	}
	scheme, rest, _ := strings.Cut(v, " ")
	rest = strings.TrimLeft(rest, " ")
	before := v[:len(v)-len(rest)]
	switch {
	case rest == "" || !isScheme(scheme):
		return v
	case named(rest) != nil:
		return before + text(named(rest))
	case name != "Authorization" || !strings.EqualFold(scheme, "basic"):
		return v
	}
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(rest, "= "))
	user, password, pair := strings.Cut(string(plain), ":")
	if err != nil || !pair || named(user) == nil && named(password) == nil {
		return v // keeps its encoding
	}
	for _, part := range []*string{&user, &password} {
		if e := named(*part); e != nil {
			*part = text(e)
		}
	}
	return scheme + " " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// isScheme reports whether a text can be the scheme before a token. It is too short to
// hold a placeholder.
func isScheme(s string) bool {
	if s == "" || len(s) >= length {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}

// fillQuery returns a query with the placeholders replaced by what text returns for
// their credentials, where a parameter that the credential names is the placeholder
// alone. All other pairs keep their bytes.
func (s *Set) fillQuery(raw string, text func(*entry) string) string {
	if raw == "" {
		return ""
	}
	pairs := strings.Split(raw, "&")
	for i, pair := range pairs {
		key, v, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(key)
		if err != nil {
			continue
		}
		plain, err := url.QueryUnescape(v)
		if err != nil {
			continue
		}
		if e := s.exact(plain); e != nil && slices.Contains(e.ReplaceInQuery, name) {
			pairs[i] = key + "=" + url.QueryEscape(text(e))
		}
	}
	return strings.Join(pairs, "&")
}

// value returns what stands in a request in the place of an entry's placeholder.
func (u *use) value(e *entry) string {
	if !e.covers(u.to) || u.withheld[e.Name] {
		return e.shown()
	}
	text := e.text()
	if u.inserted += len(text); u.inserted > maxInserted {
		u.tooMuch = true
		return ""
	}
	u.names[e.Name] = true
	return text
}

// look searches a text for placeholders that stand where none of their credential is
// replaced.
func (s *Set) look(to Target, part, text string, ok func(*entry) bool) (err error) {
	eachFolded(text, func(p []byte) bool {
		err = s.check(to, part, p, ok)
		return err == nil
	})
	return err
}

// nowhere is the parts of a request in which no placeholder may stand.
func nowhere(*entry) bool { return false }

// lookHeader searches a header's value. Headers that the proxy sets itself may hold
// anything: their values are not sent.
func (s *Set) lookHeader(to Target, name, v string, signing bool) error {
	var misplaced error
	rest := s.fillHeader(name, v, func(e *entry) string {
		if !e.covers(to) {
			misplaced = s.misuse(to, "header", e)
		}
		return ""
	})
	if misplaced != nil {
		return misplaced
	}
	return s.look(to, "header", rest, func(e *entry) bool {
		return e.Header != "" && SameHeader(name, e.Header) || signing && (name == "Authorization" || name == "X-Amz-Security-Token")
	})
}

// lookQuery searches a query.
func (s *Set) lookQuery(to Target, raw string) error {
	var misplaced error
	rest := s.fillQuery(raw, func(e *entry) string {
		if !e.covers(to) {
			misplaced = s.misuse(to, "query", e)
		}
		return ""
	})
	if misplaced != nil {
		return misplaced
	}
	return s.look(to, "query", rest, nowhere)
}

// inText reports whether a placeholder may stand in a body or a message: it is replaced
// there, or it stays as it is.
func (e *entry) inText() bool { return e.ReplaceInBody || e.KeepInBody || e.login != "" }

// places names the parts of a request in which a credential's placeholder is replaced.
func (e *entry) places() string {
	var out []string
	if e.Header != "" {
		out = append(out, "the header "+http.CanonicalHeaderKey(e.Header))
	}
	for _, h := range e.ReplaceInHeaders {
		out = append(out, "the header "+h)
	}
	for _, q := range e.ReplaceInQuery {
		out = append(out, "the query parameter "+q)
	}
	if e.ReplaceInBody {
		out = append(out, "the body")
	}
	return strings.Join(out, ", ")
}

// headers replaces the placeholders in the headers of a request.
func (u *use) headers(h http.Header) error {
	for name, values := range h {
		for i, v := range values {
			values[i] = u.set.fillHeader(name, v, u.value)
		}
	}
	return u.bounded()
}

// query replaces the placeholders in the query of a request.
func (u *use) query(to *url.URL) error {
	to.RawQuery = u.set.fillQuery(to.RawQuery, u.value)
	return u.bounded()
}

func (u *use) bounded() error {
	if u.tooMuch {
		return ErrTooMuch
	}
	return nil
}

// signs reports whether an endpoint's requests are signed.
func signs(e *policy.Endpoint) bool { return e != nil && e.Signing != policy.SigningNone }

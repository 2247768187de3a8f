package credential

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// minEcho is the length of the shortest value that is searched for in answers: a
// shorter one could be an ordinary word.
const minEcho = 8

// maxEarlier is how many values of earlier policies are remembered.
const maxEarlier = 64

// htmlNames writes the signs in a page that have other escapes than Go's.
var htmlNames = strings.NewReplacer("&#34;", "&quot;", "&#39;", "&#x27;")

// escapes are the escaped bytes of an address.
var escapes = regexp.MustCompile("%[0-9A-F]{2}")

// Echo knows the values that must not come back from a host, and finds them in its
// answers. An upstream may repeat what it was sent. A nil Echo finds nothing.
type Echo struct {
	// forms are the texts that are searched for, by their first two bytes.
	forms map[[2]byte][][]byte
	// begins has a bit for each two bytes that a form begins with.
	begins  [1 << 16 / 64]uint64
	longest int
}

// Echo returns what masks values in answers of a host; nil if no credential of the
// run, under this policy or an earlier one, may go there. All values of the run are
// masked: hosts tell each other what they know.
func (s *Set) Echo(host string) *Echo {
	if s == nil || !slices.ContainsFunc(s.ends, func(e end) bool { return e.Host.Match(host) }) {
		return nil
	}
	return s.all()
}

// Repeated reports whether a text holds a value.
func (s *Set) Repeated(text []byte) bool {
	_, spans := s.all().scan(text, nil)
	return len(spans) > 0
}

// all returns what finds all values, nil if there are none.
func (s *Set) all() *Echo {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.echo == nil {
		e := &Echo{forms: map[[2]byte][][]byte{}}
		for _, v := range s.past {
			e.add(v.text())
		}
		for _, entry := range s.entries {
			for _, v := range entry.values() {
				e.add(v)
			}
		}
		s.echo = e
	}
	if s.echo.longest == 0 {
		return nil
	}
	return s.echo
}

// add adds a value with the forms in which an upstream may repeat it: as it was sent,
// and as it stands in an address, in JSON, in a page and in base64.
func (e *Echo) add(v string) {
	if len(v) < minEcho {
		return
	}
	escaped, _ := json.Marshal(v) // a string always encodes
	query, page := url.QueryEscape(v), html.EscapeString(v)
	list := []string{
		v, page, htmlNames.Replace(page),
		jsonEscape(v), strings.ReplaceAll(jsonEscape(v), "/", `\/`), string(escaped[1 : len(escaped)-1]),
	}
	for _, f := range []string{query, url.PathEscape(v), strings.ReplaceAll(query, "+", "%20"), strings.ReplaceAll(strings.ReplaceAll(query, "+", "%20"), "%2F", "/")} {
		list = append(list, f, escapes.ReplaceAllStringFunc(f, strings.ToLower))
	}
	for before := range 3 {
		// The characters at both ends also depend on what is beside the value.
		from, to := (before*8+5)/6, (before+len(v))*8/6
		b := append(make([]byte, before), v...)
		list = append(list, base64.RawStdEncoding.EncodeToString(b)[from:to], base64.RawURLEncoding.EncodeToString(b)[from:to])
	}
	// Keys that sign are sent in parts.
	if keys, ok := parsePair(v); ok {
		e.add(keys.SecretAccessKey)
		e.add(keys.SessionToken)
	}
	for _, f := range list {
		start := [2]byte{f[0], f[1]}
		if !slices.ContainsFunc(e.forms[start], func(other []byte) bool { return string(other) == f }) {
			e.forms[start] = append(e.forms[start], []byte(f))
		}
		n := int(f[0])<<8 | int(f[1])
		e.begins[n/64] |= 1 << (n % 64)
		e.longest = max(e.longest, len(f))
	}
}

// drop overwrites the values.
func (e *Echo) drop() {
	if e == nil {
		return
	}
	for _, list := range e.forms {
		for _, f := range list {
			clear(f)
		}
	}
}

// Longest returns the length of the longest text that is searched for.
func (e *Echo) Longest() int {
	if e == nil {
		return 0
	}
	return e.longest
}

// span is a part of a text, from its first byte to the one after its last.
type span struct{ from, to int }

// scan adds to spans where b holds values. open is the index from which b could be
// the start of a value that continues after its end; len(b) if there is none.
func (e *Echo) scan(b []byte, spans []span) (open int, all []span) {
	open = len(b)
	if e == nil || len(b) == 0 {
		return open, spans
	}
	for i := range len(b) - 1 {
		if n := int(b[i])<<8 | int(b[i+1]); e.begins[n/64]&(1<<(n%64)) == 0 {
			continue
		}
		for _, f := range e.forms[[2]byte{b[i], b[i+1]}] {
			switch {
			case bytes.HasPrefix(b[i:], f):
				spans = append(spans, span{i, i + len(f)})
			case bytes.HasPrefix(f, b[i:]):
				open = min(open, i)
			}
		}
	}
	for start := range e.forms {
		if start[0] == b[len(b)-1] {
			open = min(open, len(b)-1)
		}
	}
	return open, spans
}

// Header masks values in the fields of a header.
func (e *Echo) Header(h http.Header) {
	if e == nil {
		return
	}
	for _, list := range h {
		for i, v := range list {
			list[i] = e.Text(v)
		}
	}
}

// Text masks values in a text. Its length stays.
func (e *Echo) Text(s string) string {
	b := []byte(s)
	_, spans := e.scan(b, nil)
	if len(spans) == 0 {
		return s
	}
	for _, found := range spans {
		blank(b[found.from:found.to])
	}
	return string(b)
}

func blank(b []byte) {
	for i := range b {
		b[i] = '*'
	}
}

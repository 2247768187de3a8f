package policy

import (
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// SentRequest is an HTTP request as a program sends it. Servers may read a request in
// different ways; it must be allowed in all of them.
type SentRequest struct {
	// Request has its path as it is sent.
	Request
	// RawQuery, if set, replaces Query.
	RawQuery string
	// Header has its names in the canonical form of net/http.
	Header map[string][]string
}

// ExplainSent returns what the proxy does with a request, or with a connection
// if there is neither a method nor a path, query, header or content.
func (p *Policy) ExplainSent(s SentRequest) Explanation {
	q := s.Request
	connection := p.ExplainRequest(Request{Host: q.Host, Port: q.Port, Scheme: q.Scheme, Binary: q.Binary})
	var found []candidate
	var each [][]candidate // of each list
	for _, s := range p.sections() {
		list, _ := s.candidates(q)
		list = slices.DeleteFunc(list, func(c candidate) bool { return c.ep.Protocol == TCP })
		found = append(found, list...)
		if len(list) > 0 {
			each = append(each, list)
		}
	}
	nothing := q.Method == "" && q.Path == "" && s.RawQuery == "" && len(s.Header) == 0 && q.Content == nil
	if !connection.Allowed || nothing || len(found) == 0 {
		return connection
	}
	if q.Method == "" {
		q.Method = "GET"
	}
	if q.Path == "" {
		q.Path = "/"
	}
	if reason := Misleading(q.Method, s.Header); reason != "" {
		return Explanation{Rule: ruleRequest, Reason: reason}
	}
	strict := slices.ContainsFunc(found, func(c candidate) bool { return !c.ep.AllowEncodedSlash })
	path, err := match.URLPath(EscapeOdd(q.Path), !strict)
	if err != nil {
		return Explanation{Rule: ruleRequest, Reason: err.Error()}
	}
	q.Path = path
	if s.RawQuery != "" {
		query, reason := ReadQuery(s.RawQuery)
		if reason != "" {
			return Explanation{Rule: ruleRequest, Reason: reason}
		}
		q.Query = query
	}
	if want := p.Inspection(q); want.Protocol != TCP && q.Content != nil {
		var refusal string
		s.Request = q
		if q.Facts, refusal = q.Content(want, s); refusal != "" {
			return Explanation{Rule: ruleRequest, Reason: refusal}
		}
	}
	e := p.ExplainRequest(q)
	for _, list := range each {
		if refused := upgrade(list, q, s.Header, e.Rule); refused != nil {
			return *refused
		}
	}
	return q.DecideVariants(s.Header, e, p.ExplainRequest)
}

const ruleRequest = "request"

// Misleading returns why a server could read a request as another one, by its
// method or by a header; "" if it could not.
func Misleading(method string, header map[string][]string) string {
	switch method {
	case "CONNECT":
		return "CONNECT within a connection to a host"
	case textMessage:
		return textMessage + " is a word of policies, not a method"
	}
	// Some servers and frameworks take the path from these.
	for _, name := range []string{"X-Original-Url", "X-Rewrite-Url"} {
		if len(header[name]) > 0 {
			return "the header " + name + " could make another request of this one"
		}
	}
	return respelled(header)
}

// respelled returns why a header could be taken for one that says what a request is: many
// gateways treat "-", "_" and other signs in the names of headers alike.
func respelled(header map[string][]string) (reason string) {
	for name := range header {
		if strings.IndexFunc(name, odd) < 0 {
			continue
		}
		other := textproto.CanonicalMIMEHeaderKey(strings.Map(func(c rune) rune {
			if odd(c) {
				return '-'
			}
			return c
		}, name))
		text := "some servers take the header " + show(name) + " for " + other
		if slices.Contains(meaningful(), other) && (reason == "" || text < reason) {
			reason = text
		}
	}
	return reason
}

// odd reports whether a character is unusual in the name of a header.
func odd(c rune) bool {
	return c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
}

// meaningful returns the headers by which a request is read and decided.
func meaningful() []string {
	return append([]string{
		"Content-Encoding", "Content-Length", "Content-Type", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id",
		"Transfer-Encoding", "X-Original-Url", "X-Rewrite-Url",
	}, overriding()...)
}

// overriding returns the headers from which some frameworks take the method.
func overriding() []string {
	return []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}
}

// EscapeOdd escapes characters that an address may not hold, so that rules and
// servers see one form of them, however they were sent.
func EscapeOdd(path string) string {
	const odd = "\"<>^`{|}[]"
	if !strings.ContainsAny(path, odd) {
		return path
	}
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; strings.IndexByte(odd, c) >= 0 {
			b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(c), 16)))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// ReadQuery reads the query of a request, or returns why servers could read it
// in two ways.
func ReadQuery(raw string) (query map[string][]string, reason string) {
	for i := range len(raw) {
		if b := raw[i]; b <= ' ' || b >= 0x7f || b == '#' {
			return nil, "the query holds a control character, a space or a byte that is not ASCII"
		}
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		// A semicolon, or a percent sign without two digits: servers differ.
		return nil, "the query could be read in two ways"
	}
	return query, ""
}

// DecideVariants decides about the other ways in which servers may read an allowed
// request, whose path is canonical: with the methods that some frameworks take
// from headers, and with a path whose escapes are decoded further than the
// standard allows. All of them must be allowed; if one is only recorded, so is
// the request. It returns the first decision that changes the result.
func (q Request) DecideVariants(header map[string][]string, decided Explanation, explain func(Request) Explanation) Explanation {
	if !decided.Allowed {
		return decided
	}
	if e := q.explainOtherPaths(explain); !e.Allowed || e.Audited {
		return e
	}
	for _, name := range overriding() {
		for _, method := range header[name] {
			other := q
			other.Method = strings.ToUpper(strings.TrimSpace(method))
			if reason := Misleading(other.Method, nil); reason != "" {
				return Explanation{Rule: ruleRequest, Reason: "the header " + name + " makes another request of this one: " + reason}
			}
			e := explain(other)
			if e.Allowed && !e.Audited {
				e = other.explainOtherPaths(explain)
			}
			if !e.Allowed || e.Audited {
				e.Reason = "the header " + name + " makes another request of this one: " + e.Reason
				return e
			}
		}
	}
	return decided
}

// explainOtherPaths decides about the other paths that servers may read. Where an encoded slash
// may stand in a segment, deny rules hold for the path that has a slash there, too.
func (q Request) explainOtherPaths(explain func(Request) Explanation) Explanation {
	if !strings.Contains(q.Path, "%") {
		return Explanation{Allowed: true}
	}
	for _, path := range append([]string{q.Path}, readings(q.Path)...) {
		other := q
		if other.Path = path; path != q.Path {
			if e := explain(other); !e.Allowed || e.Audited {
				return e
			}
		}
		if slashed, err := match.URLPath(encodedSlashes.Replace(path), true); err == nil && slashed != path {
			other.Path = slashed
			if e := explain(other); strings.HasPrefix(e.Reason, denyWins) {
				return e
			}
		}
	}
	return Explanation{Allowed: true}
}

var encodedSlashes = strings.NewReplacer("%2F", "/", "%5C", "/")

// readings returns the other paths that servers read in a canonical one, if they decode
// escapes of delimiters, or escapes that were encoded again.
func readings(path string) (out []string) {
	for path != "" {
		if loose := unescapeDelimiters(path); loose != path {
			out = append(out, loose)
		}
		if path = match.Decoded(path); path != "" {
			out = append(out, path)
		}
	}
	return out
}

// unescapeDelimiters decodes the escapes of characters that need none in a
// path. By the standard "%40" and "@" may differ; most servers treat them
// alike.
func unescapeDelimiters(path string) string {
	const delimiters = "!$&'()*+,=:@"
	if !strings.Contains(path, "%") {
		return path
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '%' && i+2 < len(path) {
			v, err := strconv.ParseUint(path[i+1:i+3], 16, 8)
			if err == nil && strings.IndexByte(delimiters, byte(v)) >= 0 {
				b.WriteByte(byte(v))
				i += 2
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

// upgrade refuses a change of the connection's protocol, except to a websocket
// on an endpoint for websockets. rule is the one that decided about the
// request.
func upgrade(found []candidate, q Request, header map[string][]string, rule string) *Explanation {
	tokens := header["Upgrade"]
	if len(tokens) == 0 && len(header["Http2-Settings"]) == 0 {
		return nil
	}
	covering := mostSpecific(slices.DeleteFunc(slices.Clone(found), func(c candidate) bool { return !c.ep.Path.Match(q.Path) }))
	switch {
	case len(tokens) != 1 || !strings.EqualFold(tokens[0], "websocket"):
		return &Explanation{Rule: ruleRequest, Reason: "the request asks for another protocol on the connection; only websocket is possible"}
	case q.Method != "GET":
		return &Explanation{Rule: ruleRequest, Reason: "the handshake of a websocket is a GET request"}
	case len(covering) == 0 || covering[0].ep.Protocol != Websocket:
		return &Explanation{Rule: rule, Reason: "the request opens a websocket, and the entry for the path does not allow that"}
	}
	return nil
}

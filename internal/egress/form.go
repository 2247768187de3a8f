package egress

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/match"
	"github.com/forkcell/forkcell/internal/policy"
)

// misdirected is the refusal for another host than the connection's.
type misdirected struct{ refusal }

// checkForm refuses what could mean another request to somebody else.
func (f *flight) checkForm(r *http.Request) error {
	if r.ProtoMajor == 1 && r.ProtoMinor > 1 || r.ProtoMajor > 2 || r.Method == "PRI" {
		return refuse(layerRequest, "request", "this version of HTTP is not supported here")
	}
	if r.ProtoMajor == 1 && r.URL.Host != "" && !f.c.explicit {
		if r.URL.User != nil || r.URL.Scheme != f.scheme {
			return refuse(layerRequest, "request", "the address in the request line is not one of this connection")
		}
	}
	for _, host := range append([]string{r.Host}, r.Header["Host"]...) {
		if !f.to.is(host, f.scheme) {
			return &misdirected{*refuse(layerRequest, "request", "the request is for the host "+strconv.Quote(clip(host))+", the connection is to "+f.to.authority(f.scheme))}
		}
	}
	switch {
	case r.Method == http.MethodConnect:
		return refuse(layerRequest, "request", "CONNECT within a connection to a host")
	case r.Method == textMessage:
		return refuse(layerRequest, "request", "WEBSOCKET_TEXT is a word of policies, not a method")
	case r.URL.Path == "*" || r.URL.Opaque != "":
		return refuse(layerRequest, "request", "the request names no path")
	}
	// Some servers and frameworks take the path from these.
	for _, name := range []string{"X-Original-Url", "X-Rewrite-Url"} {
		if len(r.Header[name]) > 0 {
			return refuse(layerRequest, "request", "the header "+name+" could make another request of this one")
		}
	}
	return nil
}

// is reports whether a Host header names the place.
func (to place) is(host, scheme string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, defaultPort(scheme)
		if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
			name = name[1 : len(name)-1]
		}
	}
	if port != strconv.Itoa(int(to.port)) {
		return false
	}
	if to.literal {
		addr, err := netip.ParseAddr(name)
		return err == nil && addr.String() == to.host
	}
	return strings.EqualFold(strings.TrimSuffix(name, "."), to.host)
}

// authority is the place as a Host header names it.
func (to place) authority(scheme string) string {
	port := strconv.Itoa(int(to.port))
	if port != defaultPort(scheme) {
		return net.JoinHostPort(to.host, port)
	}
	if strings.Contains(to.host, ":") {
		return "[" + to.host + "]"
	}
	return to.host
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// canonical finds the one form of the path and the query.
func (f *flight) canonical(r *http.Request) error {
	// A URL keeps the path's spelling only where it is not the usual one.
	raw := r.URL.RawPath
	if raw == "" {
		raw = r.URL.EscapedPath()
	}
	if raw == "" {
		raw = "/"
	}
	path, err := match.URLPath(escapeOdd(raw), f.view.encodedSlash())
	if err != nil {
		return refuse(layerRequest, "request", err.Error())
	}
	f.q.Path = path
	f.endpoint = f.view.speaking(path)
	if f.endpoint != nil {
		f.protocol = f.endpoint.Protocol.String()
	}
	for i := range len(r.URL.RawQuery) {
		if b := r.URL.RawQuery[i]; b <= ' ' || b >= 0x7f || b == '#' {
			return refuse(layerRequest, "request", "the query holds a control character, a space or a byte that is not ASCII")
		}
	}
	f.q.Query, err = url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		// A semicolon, or a percent sign without two digits: servers differ.
		return refuse(layerRequest, "request", "the query could be read in two ways")
	}
	return nil
}

// escapeOdd writes characters that no address may hold as escapes, so that rules
// and servers see one form of them, however they were sent.
func escapeOdd(path string) string {
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

// readOtherwise asks again about what servers might make of the request: with
// the methods that some frameworks take from headers, and with a path whose
// escapes are resolved further than the standard equates. All of them must be
// allowed, and what would only be recorded is.
func (f *flight) readOtherwise(h http.Header) policy.Explanation {
	for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		for _, method := range h[name] {
			q := f.q
			q.Method = strings.ToUpper(strings.TrimSpace(method))
			if e := f.view.explain(q); !e.Allowed || e.Audited {
				e.Reason = "the header " + name + " makes another request of this one: " + e.Reason
				return e
			}
		}
	}
	if loose := unescapeDelimiters(f.q.Path); loose != f.q.Path {
		q := f.q
		q.Path = loose
		if e := f.view.explain(q); !e.Allowed || e.Audited {
			return e
		}
	}
	return f.decision
}

// unescapeDelimiters resolves the escapes of characters that need none in a
// path. The standard lets "%40" and "@" be different, most servers do not.
func unescapeDelimiters(path string) string {
	const delimiters = "!$&'()*+,=:@"
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

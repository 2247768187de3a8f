package credential

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/forkcell/forkcell/internal/policy"
)

// Applied reports the changes to a request.
type Applied struct {
	// Used lists the credentials whose values are in the request, sorted. It
	// lacks those that are replaced while the body is read: Body returns them.
	Used []string
	// Body, if not nil, may be called after the body was read to its end.
	Body func() []string
}

// Apply puts the values of credentials into a request that is about to be sent
// to a target. It replaces placeholders in the headers and the parameters of the
// query that their credentials name, where nothing else stands, and in the body for
// credentials that allow it. It sets the headers that credentials define. If the
// endpoint signs, it signs the request, with keys that are never sent. The request is
// changed in place, its header values too.
//
// Before it changes anything, Apply searches every part of the request for
// placeholders that may not stand there; finding one is a MisuseError. A body of
// known length up to 64 KiB (1 MiB if placeholders are replaced in it) is read
// here, so that nothing has been sent when it is refused. A longer body, and a
// stream, is searched while it is sent: then reading req.Body fails with the
// MisuseError, and the request is cut.
//
// The caller must remove the hop-by-hop headers (Connection and those that it
// names) before, or the cell could have an injected header dropped. After an
// error the request must not be sent.
func (s *Set) Apply(ctx context.Context, req *http.Request, to Target, e *policy.Endpoint, now time.Time) (Applied, error) {
	signing := signs(e)
	if err := s.inspect(req, to, signing); err != nil {
		return Applied{}, err
	}
	u := &use{set: s, to: to, names: map[string]bool{}, withheld: map[string]bool{}}
	if len(s.entries) == 0 && !signing && (req.Body == nil || req.Body == http.NoBody) {
		return Applied{}, nil
	}
	if signing && !to.Secure {
		return Applied{}, fmt.Errorf("%w: credentials go over TLS only", ErrSigning)
	}
	var keys aws.Credentials
	if signing {
		// Sign first, so that the placeholders of keys are not replaced: a
		// secret key in a header that the service stores could be read back.
		var err error
		if keys, err = u.keys(); err != nil {
			return Applied{}, err
		}
	}
	streamed, err := u.body(req)
	if err != nil {
		return Applied{}, err
	}
	if err := u.headers(req.Header); err != nil {
		return Applied{}, err
	}
	if err := u.query(req.URL); err != nil {
		return Applied{}, err
	}
	if err := u.inject(req.Header); err != nil {
		return Applied{}, err
	}
	if signing {
		if err := u.sign(ctx, req, e, keys, now); err != nil {
			return Applied{}, err
		}
	}
	out := Applied{Used: slices.Sorted(maps.Keys(u.names))}
	if streamed != nil {
		out.Body = func() []string { return slices.Sorted(maps.Keys(streamed.use.names)) }
	}
	return out, nil
}

// inspect searches everything but the body for misuse.
func (s *Set) inspect(req *http.Request, to Target, signing bool) error {
	// The path may be opaque; search all forms of it.
	parts := [][2]string{
		{"method", req.Method},
		{"host", req.Host},
		{"host", req.URL.Host},
		{"path", req.URL.Path},
		{"path", req.URL.RawPath},
		{"path", req.URL.Opaque},
		{"path", to.Path},
		{"path", req.URL.Fragment},
	}
	if req.URL.User != nil {
		parts = append(parts, [2]string{"host", req.URL.User.String()})
	}
	for _, p := range parts {
		if err := s.look(to, p[0], p[1], nowhere); err != nil {
			return err
		}
	}
	if err := s.lookQuery(to, req.URL.RawQuery); err != nil {
		return err
	}
	for name, values := range req.Header {
		if err := s.look(to, "header", name, nowhere); err != nil {
			return err
		}
		for _, v := range values {
			if err := s.lookHeader(to, name, v, signing); err != nil {
				return err
			}
		}
	}
	return s.inspectTrailer(req.Trailer, to)
}

// inspectTrailer checks the names of trailers before the body is read, and
// their values afterwards.
func (s *Set) inspectTrailer(trailer http.Header, to Target) error {
	for name, values := range trailer {
		for _, text := range append([]string{name}, values...) {
			if err := s.look(to, "trailer", text, nowhere); err != nil {
				return err
			}
		}
	}
	return nil
}

// InspectBytes searches the body of a request, or a message of a websocket, for misuse.
func (s *Set) InspectBytes(to Target, part string, b []byte) error {
	var err error
	each(b, func(p []byte) bool {
		err = s.check(to, part, p, (*entry).inText)
		return err == nil
	})
	return err
}

// Message replaces the placeholders of credentials that may go into bodies in a
// message of a websocket, and returns the message and the names of those
// credentials.
func (s *Set) Message(to Target, text []byte) ([]byte, []string, error) {
	if err := s.InspectBytes(to, partMessage, text); err != nil {
		return nil, nil, err
	}
	u := &use{set: s, to: to, names: map[string]bool{}}
	out, err := u.replace(text, escapeFor("", text))
	return out, slices.Sorted(maps.Keys(u.names)), err
}

func asIs(s string) string { return s }

// SameHeader reports whether some servers take two header names for the same:
// case does not count, and common gateways treat "-" and "_" alike.
func SameHeader(a, b string) bool {
	return strings.EqualFold(strings.ReplaceAll(a, "_", "-"), strings.ReplaceAll(b, "_", "-"))
}

// setHeader sets a header, whose name is in canonical form, and removes every
// other spelling of it.
func setHeader(h http.Header, name, value string) {
	maps.DeleteFunc(h, func(other string, _ []string) bool { return SameHeader(other, name) })
	h[name] = []string{value}
}

// inject sets the headers that credentials define, and replaces what the cell
// sent there.
func (u *use) inject(h http.Header) error {
	set := map[string]bool{}
	for _, e := range u.set.entries {
		if e.Header == "" || !e.covers(u.to) || u.withheld[e.Name] {
			continue
		}
		name := http.CanonicalHeaderKey(e.Header)
		if set[name] {
			return ErrAmbiguous
		}
		set[name] = true
		format := e.Format
		if format == "" {
			format = "{value}"
		}
		setHeader(h, name, strings.Replace(format, "{value}", e.text(), 1))
		u.names[e.Name] = true
	}
	return nil
}

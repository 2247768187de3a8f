package egress

import (
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
)

// trailerBody is a body with trailers. Trailers that were announced before the body
// become those of the request that is sent. Others are dropped, because they
// could not be checked before the request was sent.
type trailerBody struct {
	io.ReadCloser
	from *http.Request
	to   http.Header
}

// announce copies the names of the trailers of a request to another; the values
// follow at the end of the body.
func announce(out, from *http.Request) {
	out.Trailer = nil
	if len(from.Trailer) == 0 || from.Body == nil {
		return
	}
	out.Trailer = make(http.Header, len(from.Trailer))
	for name := range from.Trailer {
		out.Trailer[name] = nil
	}
	out.Body = &trailerBody{ReadCloser: from.Body, from: from, to: out.Trailer}
}

func (t *trailerBody) Read(b []byte) (int, error) {
	n, err := t.ReadCloser.Read(b)
	if errors.Is(err, io.EOF) {
		for name := range t.to {
			t.to[name] = t.from.Trailer[name]
		}
	}
	return n, err
}

// checkTrailers refuses trailers that repeat a header, which the proxy may have
// set: some servers merge the two. It also refuses those that the standard
// forbids: fields that decide where a request goes, who sends it or how long it
// is.
func checkTrailers(out *http.Request) error {
	for name := range out.Trailer {
		same := func(other string) bool { return credential.SameHeader(name, other) }
		for header := range out.Header {
			if same(header) {
				return refuse(layerRequest, "request", "the request has a trailer of the name of its header "+header)
			}
		}
		if slices.ContainsFunc(headersOnly(), same) || slices.ContainsFunc(headersOnlyPrefixes(), func(p string) bool {
			return len(name) > len(p) && same(p+name[len(p):])
		}) {
			return refuse(layerRequest, "request", "the request has a trailer of the name "+clip(name)+", which can only be a header")
		}
	}
	return nil
}

func headersOnly() []string {
	return []string{
		"Authorization", "Connection", "Cookie", "Expect", "Forwarded", "Host", "Keep-Alive", "Te", "Trailer", "Upgrade",
		"X-Api-Key", "X-Http-Method", "X-Http-Method-Override", "X-Method-Override", "X-Original-Url", "X-Rewrite-Url", policyHeader,
	}
}

func headersOnlyPrefixes() []string {
	return []string{"Content-", "If-", "Proxy-", "Sec-", "Transfer-", "X-Amz-", "X-Forwarded-"}
}

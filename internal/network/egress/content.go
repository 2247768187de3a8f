package egress

import (
	"bytes"

	"github.com/forkcell/forkcell/internal/network/egress/inspect"
	"github.com/forkcell/forkcell/internal/policy"
)

// Content returns the content of a hypothetical request for the policy. The
// policy gets the facts that the proxy would find in the body, and the refusals
// that the proxy would make. The request counts as HTTP/2, which only gRPC
// requires.
func Content(body []byte) policy.Content {
	return func(as policy.Inspection, s policy.SentRequest) (*policy.Facts, string) {
		r := inspect.Request{
			Method: s.Method, Path: s.Path, RawQuery: s.RawQuery, Header: s.Header, ProtoMajor: 2, MaxBody: as.MaxBody,
		}
		if len(body) > 0 {
			r.Body = bytes.NewReader(body)
		}
		got, err := inspect.HTTP(as.Protocol, r)
		if err != nil {
			return nil, err.Error() // a refusal: bytes in memory can be read
		}
		return &got.Facts, ""
	}
}

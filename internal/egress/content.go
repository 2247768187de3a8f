package egress

import (
	"bytes"

	"github.com/forkcell/forkcell/internal/egress/inspect"
	"github.com/forkcell/forkcell/internal/policy"
)

// Content is a body for a question about a request: the policy is told what the
// proxy would find in it, and refused what the proxy would refuse. The request is
// taken for one in HTTP/2, which gRPC needs and nothing else asks for.
func Content(body []byte) policy.Content {
	return func(as policy.Inspection, s policy.Sent) (*policy.Facts, string) {
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

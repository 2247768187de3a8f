package egress

import (
	"errors"
	"net/http"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
)

// A host that has got the value of a credential may repeat it, at any path and on any
// port, also after a new policy. So all of its answers are searched, and asked for in
// a form in which they can be.

// echo returns a function that finds the values that must not come back from the
// host of a request. New ones may come while the answer does.
func (p *Proxy) echo(f *flight) func() *credential.Echo {
	return func() *credential.Echo {
		p.mu.RLock()
		defer p.mu.RUnlock()
		return p.gen.Credentials.Echo(f.to.host)
	}
}

// askPlain asks for an answer that is not compressed, as a whole or message by
// message.
func askPlain(h http.Header) {
	h["Accept-Encoding"] = []string{"identity"}
	for _, name := range []string{"Grpc-Accept-Encoding", "Connect-Accept-Encoding"} {
		if len(h[name]) > 0 {
			h[name] = []string{"identity"}
		}
	}
	h.Del("A-Im") // encodings of RFC 3229
}

// search has an answer searched for values.
func (p *Proxy) search(res *http.Response, f *flight) error {
	if !hasBody(res) {
		return nil // whatever its header says of one
	}
	if err := checkUnencoded(res); err != nil {
		return err
	}
	cut, err := f.part.narrow(res)
	if err != nil {
		return err
	}
	f.status.Store(int32(res.StatusCode))
	if res.Body == http.NoBody {
		return nil
	}
	mask := credential.Mask{Echo: p.echo(f)}
	if f.endpoint != nil && f.endpoint.Protocol == policy.GRPC {
		// Only where the policy says so: else a program could choose what counts as
		// the end of a message.
		res.Body = mask.Calls(res.Body)
	} else {
		res.Body = mask.Body(res.Body)
	}
	if cut != nil {
		cut.ReadCloser = res.Body
		res.Body = cut
	}
	return nil
}

// hasBody reports whether an answer of this kind can have a body.
func hasBody(res *http.Response) bool {
	return res.Request.Method != http.MethodHead && res.StatusCode != http.StatusNoContent && res.StatusCode != http.StatusNotModified
}

// errEncoded is the failure of an upstream whose answer cannot be searched.
var errEncoded = errors.New("the upstream compresses its answer although it was asked not to, so that the answer cannot be searched for credentials")

// checkUnencoded refuses an answer that is compressed.
func checkUnencoded(res *http.Response) error {
	for _, name := range []string{"Content-Encoding", "Grpc-Encoding", "Connect-Content-Encoding", "Im"} {
		for _, v := range res.Header[name] {
			if v != "" && v != "identity" {
				return errEncoded
			}
		}
	}
	return nil
}

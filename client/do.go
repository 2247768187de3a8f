package client

import (
	"net/http"
	"net/url"
)

// Do sends a request to the daemon, for what has no method of its own. The URL has only
// a path and a query. An answer that reports a failure is returned as an *Error. The
// caller closes the body of the answer. The request is sent once.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	at, err := url.Parse(c.address.base)
	if err != nil {
		return nil, err
	}
	out := req.Clone(req.Context())
	out.URL.Scheme, out.URL.Host, out.Host = at.Scheme, at.Host, ""
	resp, err := sender{c}.Do(out)
	if err != nil {
		return nil, err
	}
	return requireSuccess(resp)
}

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
	c.identify(out.Header)
	resp, err := c.http.Do(out) //nolint:gosec // the address is the daemon's, whatever the request says
	if err != nil {
		return nil, c.failed(err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		defer func() { _ = resp.Body.Close() }()
		return nil, readError(resp)
	}
	return resp, nil
}

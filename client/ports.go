package client

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api/op"
)

// Fetch sends a request to a listener on the loopback of a live cell, and returns its
// answer. The URL of the request has only a path and a query. The answer of the daemon
// itself, for example if nothing listens there, has the type application/problem+json.
// The request is sent once.
func (c *Cell) Fetch(port int, req *http.Request) (*http.Response, error) {
	path := op.GetPort.At(c.Name, strconv.Itoa(port), "") + strings.TrimPrefix(req.URL.EscapedPath(), "/")
	if req.URL.RawQuery != "" {
		path += "?" + req.URL.RawQuery
	}
	target, err := url.Parse(c.client.address.base + path)
	if err != nil {
		return nil, err
	}
	out := req.Clone(req.Context())
	out.URL, out.Host = target, ""
	if c.client.token != "" {
		out.Header.Set("Authorization", "Bearer "+c.client.token)
	}
	resp, err := c.client.http.Do(out) //nolint:gosec // the address is that of the daemon, whatever the path
	if err != nil {
		return nil, c.client.failed(err)
	}
	return resp, nil
}

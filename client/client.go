package client

import (
	"context"
	"net"
	"net/http"
	"time"
)

// Client is a connection to a daemon. It is safe for concurrent use.
type Client struct {
	Cells     *Cells
	Runs      *Runs
	Receipts  *Receipts
	Decisions *Decisions
	Policies  *Policies
	Events    *Events
	Tokens    *Tokens
	Sessions  *Sessions
	Agents    *Agents

	address  address
	token    string
	binary   string
	commands bool
	http     *http.Client
}

// New connects to a daemon. Without an option it is the one that FORKCELL_URL names,
// with the token in the file that FORKCELL_TOKEN_FILE names; without FORKCELL_URL it
// is the one on the socket of the default home, which needs no token.
//
// New sends nothing: Version tells whether the daemon answers.
func New(opts ...Option) (*Client, error) {
	conf := config{binary: "forkcell"}
	for _, o := range opts {
		o(&conf)
	}
	if err := conf.read(); err != nil {
		return nil, err
	}
	at, err := conf.parse()
	if err != nil {
		return nil, err
	}
	c := &Client{address: at, token: conf.token, binary: conf.binary, commands: conf.commands, http: &http.Client{
		Transport: transport(at, conf),
		// A redirection would carry the token to another place.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	c.Cells, c.Runs, c.Receipts = &Cells{c}, &Runs{c}, &Receipts{c}
	c.Decisions, c.Policies, c.Events, c.Tokens = &Decisions{c}, &Policies{c}, &Events{c}, &Tokens{c}
	c.Sessions, c.Agents = &Sessions{c}, &Agents{c}
	return c, nil
}

func transport(at address, conf config) *http.Transport {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf.tls, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second,
	}
	if at.socket != "" {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", at.socket)
		}
	}
	return t
}

// Local reports whether the daemon is on a local socket, so that both sides see the
// same files.
func (c *Client) Local() bool { return c.address.socket != "" }

// Close closes the connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"time"
)

// browser asks for pages of the daemon, signed in.
type browser struct {
	client *http.Client
	base   string // such as http://NAME:PORT
}

// signIn signs a browser in by a code of the socket.
func (d *daemon) signIn(ctx context.Context) (*browser, error) {
	var code struct {
		URL string `json:"url"`
	}
	if err := d.do(ctx, "POST", "/ui/code", nil, &code); err != nil {
		return nil, err
	}
	at, err := url.Parse(code.URL)
	if err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	// The name of the pages is below localhost, which not every resolver knows.
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", at.Port()))
	}
	br := &browser{client: &http.Client{Jar: jar, Transport: &http.Transport{DialContext: dial}}, base: "http://" + at.Host}
	_, err = br.get(ctx, at.RequestURI())
	return br, err
}

// get reads a page and returns how long that took.
func (br *browser) get(ctx context.Context, at string) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, br.base+at, nil)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	res, err := br.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", at, res.Status)
	}
	return time.Since(begin), err
}

// daemonPages measures pages of the review site after many runs in one cell, among many
// cells. The row is that of the slowest page.
func (b *bench) daemonPages(ctx context.Context, s shape) ([]row, error) {
	d, err := b.serve(ctx, s)
	if err != nil {
		return nil, err
	}
	forks, runs := 1000, 2000
	if b.quick {
		forks, runs = 200, 200
	}
	if err := d.do(ctx, "POST", "/v1/cells/"+s.name+"/fork", map[string]any{"name": "paged", "n": forks}, nil); err != nil {
		return nil, err
	}
	var last struct {
		RunID string `json:"run_id"`
	}
	for range runs {
		if err := d.do(ctx, "POST", "/v1/cells/paged-1/runs", runsTrue, &last); err != nil {
			return nil, err
		}
	}
	br, err := d.signIn(ctx)
	if err != nil {
		return nil, err
	}
	defer br.client.CloseIdleConnections()
	var slowest time.Duration
	name := ""
	for _, at := range []string{
		"/ui/", "/ui/?q=paged-7", "/ui/cells/paged-1", "/ui/cells/paged-1?before=60", "/ui/runs/" + last.RunID, "/ui/events", "/ui/events?cell=paged-1",
		"/ui/compare?cell=" + s.name, "/ui/receipts", "/ui/receipts?before=150", "/ui/policy",
	} {
		var took []time.Duration
		for range b.times(9, 3) {
			t, err := br.get(ctx, at)
			if err != nil {
				return nil, err
			}
			took = append(took, t)
		}
		if m := median(took); m > slowest {
			slowest, name = m, at
		}
	}
	what := fmt.Sprintf("the slowest page of the review site (`%s`) with %s cells, one with %s runs", name, number(forks), number(runs))
	return []row{limitRow(what, show(slowest), "below 300 ms", slowest < 300*time.Millisecond)}, nil
}

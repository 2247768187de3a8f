package daemon_test

import (
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/rest"
)

// cutRequests are requests that lack a part of their body.
func cutRequests() map[string]string {
	const json = "Host: localhost\r\nContent-Type: application/json\r\n"
	return map[string]string{
		"document": "POST /v1/cells/demo/runs HTTP/1.1\r\n" + json + "Content-Length: 1000\r\n\r\n" + `{"command":["true"]}`,
		"key":      "POST /v1/cells/demo/runs HTTP/1.1\r\n" + json + "Idempotency-Key: k\r\nContent-Length: 1000\r\n\r\n" + `{"command":["true"]}`,
		"parts":    "POST /v1/cells/demo/runs HTTP/1.1\r\n" + json + "Transfer-Encoding: chunked\r\n\r\n14\r\n" + `{"command":["true"]}` + "\r\n5\r\nab",
		"upload":   "POST /v1/uploads HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-tar\r\nContent-Length: 1000\r\n\r\n" + "cut",
	}
}

// untouched checks that requests had no effect.
func (d *testDaemon) untouched() {
	d.Helper()
	var runs api.List[api.RunInfo]
	d.want(200, &runs, "GET", "/v1/runs", nil)
	if len(runs.Items) != 0 || d.uploads() != 0 {
		d.Errorf("%+v, %d uploads", runs.Items, d.uploads())
	}
}

// TestSlowBody sends a part of a body, and nothing more. A request that takes longer
// than a body may pause is no slow body.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	d := newServed(t, func(c *rest.Config) { c.BodyTimeout = 300 * time.Millisecond })
	d.cell("demo")
	for name, request := range cutRequests() {
		r := d.raw(false, "%s", request)
		var p api.Problem
		if decodeInto(t, r.body, &p); r.status != 408 || p.Code != api.CodeSlow || !strings.Contains(p.Hint, "300ms") || r.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	// Nobody reads the body of a request that no route takes.
	if r := d.raw(false, "POST /none HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx"); r.status != 404 {
		t.Errorf("%d %s", r.status, r.body)
	}
	d.untouched()
	long := api.RunBody{Command: []string{"sleep", "0.6"}}
	for _, header := range [][]string{nil, {"Idempotency-Key", "k"}, {"Accept", "text/event-stream"}} {
		if r := d.send("POST", "/v1/cells/demo/runs", long, header...); r.status != 200 || !strings.Contains(string(r.body), `"outcome":"succeeded"`) {
			t.Errorf("%v: %d %s", header, r.status, r.body)
		}
	}
}

// TestCutBodies ends connections before the bodies that they announce.
func TestCutBodies(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	for name, request := range cutRequests() {
		r := d.raw(true, "%s", request)
		var p api.Problem
		if decodeInto(t, r.body, &p); r.status != 400 || p.Code != api.CodeUsage || p.Detail != "the body was cut off" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	d.untouched()
}

// TestFalseLengths sends lengths that are not those of the body, or no lengths.
func TestFalseLengths(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	const body = `{"command":["true"]}`
	for _, header := range []string{
		"Content-Length: 5", "Content-Length: 0", "Content-Length: -1", "Content-Length: 2x", "Content-Length: +20", "Content-Length: 20\r\nContent-Length: 21",
		"Content-Length: 99999999999999999999", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: gzip",
	} {
		r := d.raw(true, "POST /v1/cells/demo/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", header, body)
		if r.status != 400 && r.status != 501 {
			t.Errorf("%s: %d %s", header, r.status, r.body)
		}
	}
	for _, header := range [][]string{nil, {"Idempotency-Key", "k"}} { // a little more than the 8 MiB of a JSON body, so that all of it is sent
		d.problem(413, api.CodeTooLarge, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"echo", strings.Repeat("x", 8<<20)}}, header...)
	}
	if r := d.raw(true, "POST /v1/uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\nx", int64(17)<<30); r.status != 413 && r.status != 400 {
		t.Errorf("%d %s", r.status, r.body)
	}
	d.untouched()
}

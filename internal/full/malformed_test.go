package full_test

import (
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestMethods sends methods that a path does not take.
func TestMethods(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	for path, allow := range map[string]string{
		"/v1/cells":             "GET, HEAD, POST",
		"/v1/runs/run_x":        "GET, HEAD",
		"/v1/runs/run_x/cancel": "POST",
		"/v1/receipts/verify":   "POST",
		"/healthz":              "GET, HEAD",
	} {
		h := d.want(405, nil, "DELETE", path, nil)
		if h.Get("Allow") != allow {
			t.Errorf("%s: Allow %q, want %q", path, h.Get("Allow"), allow)
		}
	}
	d.problem(405, api.CodeMethod, "TRACE", "/v1/cells", nil)
	d.problem(404, api.CodeNotFound, "GET", "/v1/nothing", nil)
}

// TestEmptyParameters sends parameters without a value.
func TestEmptyParameters(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	for _, query := range []string{"limit=", "state=", "limit=&limit=2"} {
		d.problem(400, api.CodeUsage, "GET", "/v1/cells?"+query, nil)
	}
	d.want(200, nil, "GET", "/v1/cells?cursor=", nil)
}

// TestNull sends null for fields: it has a meaning only in a change of settings.
func TestNull(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.problem(400, api.CodeUsage, "POST", "/v1/cells", `{"name":"demo","source":{"empty":true},"backend":null}`)
	d.problem(400, api.CodeUsage, "POST", "/v1/cells", `{"name":"demo","source":{"empty":true,"path":null}}`)
	d.want(201, nil, "POST", "/v1/cells", `{"name":"demo","source":{"empty":true},"ttl":"1h"}`)
	d.problem(400, api.CodeUsage, "POST", "/v1/cells/demo/runs", `{"command":["true"],"timeout":null}`)
	d.problem(400, api.CodeUsage, "POST", "/v1/race", `{"cell":"demo","attempts":[{"command":["true"],"env":null}]}`)
	d.problem(400, api.CodeUsage, "PATCH", "/v1/cells/demo", `{"name":null}`)
	var info api.CellInfo
	d.want(200, &info, "PATCH", "/v1/cells/demo", `{"ttl":null}`)
	if info.TTL != 0 {
		t.Errorf("the time limit is still there: %v", info.TTL)
	}
}

// TestEmptyBodies sends no body where one is needed, and reads an empty one.
func TestEmptyBodies(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.problem(400, api.CodeUsage, "POST", "/v1/uploads", nil)
	d.cell("demo")
	d.want(200, nil, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"true"}})
	r := d.send("GET", "/v1/cells/demo/diff?format=patch", nil)
	if r.status != 200 || len(r.body) != 0 || r.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d %v %q", r.status, r.header, r.body)
	}
}

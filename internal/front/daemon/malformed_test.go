package daemon_test

import (
	"fmt"
	"net/http"
	"strings"
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
	for _, query := range []string{"limit=", "state=", "limit=&limit=2", "limit=1&limit=2", "cursor=&cursor="} {
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

// TestRepeatedFields sends fields and headers twice, of which two readers might take
// different ones.
func TestRepeatedFields(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	for _, body := range []string{
		`{"name":"one","name":"two","source":{"empty":true}}`, `{"name":"one","source":{"empty":true,"empty":true}}`,
		`{"name":"one","source":{"empty":true},"labels":{"a":"b","\u0061":"c"}}`,
	} {
		if p := d.problem(400, api.CodeUsage, "POST", "/v1/cells", body); len(p.Details) != 1 || !strings.Contains(p.Details[0], "is there twice") {
			t.Errorf("%+v", p)
		}
	}
	d.want(201, nil, "POST", "/v1/cells", `{"name":"one","source":{"empty":true},"labels":{"a":"b","b":"b"}}`)
	req, err := http.NewRequestWithContext(t.Context(), "POST", d.site+"/v1/cells/one/checkpoints", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header["Idempotency-Key"] = []string{"a", "b"}
	resp, err := d.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Error(resp.Status)
	}
}

// TestAccept asks for types that a resource does not have, and for them in odd ways. A
// request that is refused has no effect.
func TestAccept(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	for _, accept := range []string{"text/plain", "text/*, image/png", "application/json;q=0", "application/json; q=0.0, text/html"} {
		p := d.problem(406, api.CodeNotAcceptable, "POST", "/v1/cells", `{"name":"no","source":{"empty":true}}`, "Accept", accept)
		if p.Hint != "accept application/json" {
			t.Errorf("%s: %s", accept, p.Hint)
		}
	}
	d.want(404, nil, "GET", "/v1/cells/no", nil)
	for _, accept := range []string{
		"*/*", "application/*", "application/json", "text/html, */*;q=0.1", "application/json;charset=utf-8", ";;;,,", ",", "a;b,c;d,", "json", "text/html;level=1,*/*",
	} {
		h := d.want(200, nil, "GET", "/v1/cells", nil, "Accept", accept)
		if h.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s", accept, h.Get("Content-Type"))
		}
	}
	d.cell("demo")
	for accept, status := range map[string]int{"text/plain": 200, "application/json": 200, "application/x-tar": 406} {
		d.want(status, nil, "GET", "/v1/cells/demo/diff?from=HEAD&to=HEAD", nil, "Accept", accept)
	}
	d.want(204, nil, "DELETE", "/v1/cells/demo", nil, "Accept", "text/plain")
}

// TestLongNames: a name in a path has the bound that the document of the API says.
func TestLongNames(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	for _, path := range []string{"/v1/cells/%s/accept", "/v1/cells/%s/files/stat", "/v1/sessions/%s/stop"} {
		d.problem(400, api.CodeUsage, "POST", fmt.Sprintf(path, strings.Repeat("a", 64)), map[string]string{})
	}
}

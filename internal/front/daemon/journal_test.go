package daemon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/front/local"
)

// requestLine is a record of a request.
type requestLine struct {
	Action string `json:"action"`
	Actor  struct {
		User struct {
			Name string `json:"name"`
		} `json:"user"`
	} `json:"actor"`
	API struct {
		Operation string `json:"operation"`
		Request   struct {
			UID string `json:"uid"`
		} `json:"request"`
		Response struct {
			Code int `json:"code"`
		} `json:"response"`
	} `json:"api"`
	Unmapped struct {
		Cell string `json:"cell"`
	} `json:"unmapped"`
}

func (l requestLine) String() string {
	return fmt.Sprintf("%s %s %d %s %q", l.Actor.User.Name, l.API.Operation, l.API.Response.Code, l.Action, l.Unmapped.Cell)
}

// engine opens the home of a daemon as a command would.
func (d *testDaemon) engine(fn func(e *engine.Engine)) {
	d.Helper()
	e, release, err := local.Open(d.home, local.Read, caller.Caller{Actor: func() string { return "tester" }})
	if err != nil {
		d.Fatal(err)
	}
	fn(e)
	if err := release(); err != nil {
		d.Error(err)
	}
}

// requests returns the records of requests, as `forkcell events query` gets them.
func (d *testDaemon) requests() (raw []byte, list []requestLine) {
	d.Helper()
	d.engine(func(e *engine.Engine) {
		err := e.Events(d.Context(), api.EventQuery{Class: int(event.APIActivity)}, func(rec event.Record) error {
			var line requestLine
			raw = append(raw, rec.Raw...)
			list = append(list, line)
			return json.Unmarshal(rec.Raw, &list[len(list)-1])
		})
		if err != nil {
			d.Fatal(err)
		}
	})
	return raw, list
}

// verifyAll is `forkcell receipt verify --all`.
func (d *testDaemon) verifyAll() (res *api.ReceiptVerifyResult) {
	d.Helper()
	d.engine(func(e *engine.Engine) {
		res, _ = e.VerifyReceipts(d.Context(), api.ReceiptVerifyRequest{All: true})
	})
	if res == nil {
		d.Fatal("no result")
	}
	return res
}

// recover is `forkcell recover`.
func (d *testDaemon) recover() {
	d.Helper()
	e, release, err := local.Open(d.home, local.Rescue, caller.Caller{Actor: func() string { return "tester" }})
	if err != nil {
		d.Fatal(err)
	}
	if _, err := e.Recover(d.Context(), false); err != nil {
		d.Error(err)
	}
	if err := release(); err != nil {
		d.Error(err)
	}
}

func TestRequestJournal(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	reader := d.token(api.TokenBody{Name: "reader", Scopes: []string{"read"}})
	admin := d.token(api.TokenBody{Name: "root", Scopes: []string{"admin"}})
	run := d.send("POST", "/v1/cells/demo/runs", `{"command":["true"],"env":{"SECRET":"hunter2"}}`)
	reader.problem(403, api.CodeForbidden, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"true"}})
	d.remote("").problem(401, api.CodeUnauthenticated, "GET", "/v1/cells?label=hunter3", nil)
	d.problem(404, api.CodeNotFound, "GET", "/nosuch/hunter4", nil)
	reader.problem(403, api.CodeForbidden, "GET", "/v1/events?class=6003", nil)
	admin.want(200, nil, "GET", "/v1/events?class=api_activity", nil)
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	raw, list := d.requests()
	var got []string
	for _, l := range list {
		got = append(got, l.String())
	}
	who := list[0].Actor.User.Name
	want := []string{
		who + ` POST /v1/cells 201 Allowed ""`, who + ` POST /v1/tokens 201 Allowed ""`, who + ` POST /v1/tokens 201 Allowed ""`,
		who + ` POST /v1/cells/{cell}/runs 200 Allowed "demo"`, `reader POST /v1/cells/{cell}/runs 403 Denied "demo"`,
		` GET /v1/cells 401 Denied ""`, who + ` GET / 404 Denied ""`, `reader GET /v1/events 403 Denied ""`, `root GET /v1/events 200 Allowed ""`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if list[3].API.Request.UID != run.header.Get("X-Request-Id") {
		t.Errorf("the id of the request is %q", list[3].API.Request.UID)
	}
	if bytes.Contains(raw, []byte("hunter")) || bytes.Contains(raw, []byte("fct_")) {
		t.Error("the journal has what callers sent")
	}
	res := d.verifyAll()
	if !res.OK || len(res.Notes) > 0 || !slices.ContainsFunc(res.Bound, func(b api.BoundHash) bool { return b.What == "requests" && b.Status == "verified" }) {
		t.Errorf("%+v", res)
	}
}

// TestFollowRequests: requests are a stream like other events.
func TestFollowRequests(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	r, err := d.openEvents("/v1/events?class=6003&follow=true", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.next(); err != nil {
		t.Fatal(err)
	}
	d.cell("demo")
	if e, err := r.next(); e != "requests-1 1 6003" || err != nil {
		t.Errorf("%q %v", e, err)
	}
	r.close()
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d.start(api.ServeOptions{})
	again, err := d.openEvents("/v1/events?class=6003&follow=true", r.id)
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	for _, want := range []string{"", "requests-1 2 6003"} { // the stream itself
		if e, err := again.next(); e != want || err != nil {
			t.Errorf("%q %v", e, err)
		}
	}
}

// TestJournalOfKilledDaemon: what was not signed is no damage, and a change of what
// was signed is.
func TestJournalOfKilledDaemon(t *testing.T) {
	t.Parallel()
	d := &daemonProcess{testDaemon: newDaemon(t)}
	d.cell("demo")
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d.launch()
	r, err := d.openEvents("/v1/events?class=6003&follow=true", "")
	if err != nil {
		t.Fatal(err)
	}
	d.want(200, nil, "GET", "/v1/cells/demo", nil)
	for e := ""; e == ""; {
		if e, err = r.next(); err != nil {
			t.Fatal(err)
		}
	}
	d.kill()
	if _, list := d.requests(); len(list) != 2 {
		t.Errorf("%v", list)
	}
	res := d.verifyAll()
	if !res.OK || len(res.Notes) != 1 || res.Notes[0] != "1 record of requests not signed yet" {
		t.Errorf("%+v", res)
	}
	if err := os.Remove(filepath.Join(d.home, "forkcell.db")); err != nil {
		t.Fatal(err)
	}
	d.recover()
	if again := d.verifyAll(); !again.OK || !slices.Equal(again.Notes, res.Notes) {
		t.Errorf("after recover: %+v", again)
	}
	file := filepath.Join(d.home, "requests", "0000000001.jsonl")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func() error{
		"changed": func() error { return os.WriteFile(file, bytes.Replace(text, []byte("201"), []byte("404"), 1), 0o600) },
		"cut":     func() error { return os.WriteFile(file, nil, 0o600) },
		"removed": func() error { return os.Remove(file) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if res := d.verifyAll(); res.OK {
			t.Errorf("%s: %+v", name, res)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

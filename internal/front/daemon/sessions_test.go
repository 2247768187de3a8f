package daemon_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
)

// listener is an agent that keeps what it is told.
func listener(cell string) api.CreateSession {
	b := api.CreateSession{Cell: cell, Agent: "generic", AllowNonGit: true}
	b.Arguments, b.Turns = []string{"sh", "-c", `while read -r line; do echo "$line" >> said; done`}, "1h"
	return b
}

// session starts a session that ends with the test.
func (d *testDaemon) session(b api.CreateSession) api.AgentSession {
	d.Helper()
	var i api.AgentSession
	at := d.want(http.StatusCreated, &i, "POST", "/v1/sessions", b).Get("Location")
	if at != "/v1/sessions/"+i.SessionID {
		d.Errorf("the location is %q", at)
	}
	d.Cleanup(func() { d.send("DELETE", "/v1/cells/"+i.SessionID+"?force=true", nil) })
	return i
}

// says sends a message to a session, and waits until the agent has kept it.
func (d *testDaemon) says(name, text string) {
	d.Helper()
	var sent api.SentMessage
	d.want(http.StatusOK, &sent, "POST", "/v1/sessions/"+name+"/send", api.SendRequest{Message: text})
	if sent.SentBytes != len(text)+1 {
		d.Errorf("%d bytes were sent", sent.SentBytes)
	}
	for begin := time.Now(); !strings.Contains(d.said(name), text+"\n"); {
		if time.Since(begin) > time.Minute {
			d.Fatalf("the agent did not hear %q", text)
		}
	}
}

// said returns what the agent of a session has kept.
func (d *testDaemon) said(name string) string {
	d.Helper()
	r := d.send("GET", "/v1/cells/"+name+"/files?path=said", nil)
	if r.status != http.StatusOK {
		return ""
	}
	return string(r.body)
}

// turn takes a turn of a session, as the agent's own hook would.
func (d *testDaemon) turn(name string) {
	d.Helper()
	d.engine(func(e *engine.Engine) {
		if _, err := e.Turn(d.Context(), name); err != nil {
			d.Error(err)
		}
	})
}

// TestSession: a session is started, spoken to, rewound, stopped, accepted and removed.
func TestSession(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	var plan api.SessionPlan
	d.want(http.StatusOK, &plan, "POST", "/v1/sessions/plan", listener("demo"))
	if plan.Program != "sh" || plan.Terms.Mode != "strict" || plan.Terms.Assurance != "managed" || len(plan.Terms.Endpoints) != 0 {
		t.Errorf("%+v", plan)
	}
	i := d.session(listener("demo"))
	if i.SessionID != "demo-generic" || i.Status != api.SessionRunning || i.Agent != "generic" || i.Turns != "1h" {
		t.Errorf("%+v", i)
	}
	d.says(i.SessionID, "one")
	d.turn(i.SessionID)
	d.says(i.SessionID, "two")
	d.turn(i.SessionID)
	var turns api.List[api.TurnInfo]
	d.want(http.StatusOK, &turns, "GET", "/v1/sessions/demo-generic/turns?limit=2", nil)
	if len(turns.Items) != 2 || turns.Next == nil {
		t.Fatalf("%+v", turns)
	}
	d.want(http.StatusOK, &turns, "GET", "/v1/sessions/demo-generic/turns?cursor="+*turns.Next, nil)
	if len(turns.Items) != 1 || turns.Items[0].Turn != 2 {
		t.Errorf("%+v", turns)
	}
	d.problem(http.StatusConflict, api.CodeLive, "POST", "/v1/sessions/demo-generic/accept", nil)
	d.problem(http.StatusPreconditionFailed, api.CodeChanged, "POST", "/v1/sessions/demo-generic/rewind", nil, "If-Match", `"9999"`)
	d.want(http.StatusOK, &i, "GET", "/v1/sessions/demo-generic", nil)
	if i.Status != api.SessionRunning {
		t.Errorf("a rewind that was refused has stopped the agent: %+v", i)
	}
	var back api.RewoundSession
	d.want(http.StatusOK, &back, "POST", "/v1/sessions/demo-generic/rewind", `{"reason": "two was wrong"}`, "If-Match", d.revision("demo-generic"))
	if back.Turn != 1 || back.Session.Status != api.SessionRunning || len(back.Session.RunIDs) != 2 || d.said(i.SessionID) != "one\n" {
		t.Errorf("%+v, said %q", back, d.said(i.SessionID))
	}
	d.says(i.SessionID, "three")
	d.want(http.StatusOK, &i, "POST", "/v1/sessions/demo-generic/stop", nil)
	if i.Status != api.SessionExited || i.ReceiptID == "" || i.Decision != "pending" {
		t.Errorf("%+v", i)
	}
	d.problem(http.StatusConflict, api.CodeNotStarted, "POST", "/v1/sessions/demo-generic/send", api.SendRequest{Message: "x"})
	d.problem(http.StatusConflict, api.CodePending, "DELETE", "/v1/sessions/demo-generic", nil)
	d.problem(http.StatusConflict, api.CodePending, "POST", "/v1/sessions/demo-generic/publish", api.PublishBody{Branch: "b"})
	d.want(http.StatusOK, nil, "POST", "/v1/sessions/demo-generic/accept", `{"reason": "good"}`)
	checkTimeline(t, d, i.SessionID)
	d.problem(http.StatusConflict, api.CodeHasWork, "DELETE", "/v1/sessions/demo-generic", nil)
	d.want(http.StatusNoContent, nil, "DELETE", "/v1/sessions/demo-generic?force=true", nil)
	d.problem(http.StatusNotFound, api.CodeNotFound, "GET", "/v1/sessions/demo-generic", nil)
	d.problem(http.StatusNotFound, api.CodeNotFound, "GET", "/v1/sessions/demo", nil) // a cell without one
}

// checkTimeline reads a timeline whole and in pages, and compares them.
func checkTimeline(t *testing.T, d *testDaemon, name string) {
	t.Helper()
	var whole, page api.List[api.TimelineEntry]
	d.want(http.StatusOK, &whole, "GET", "/v1/sessions/"+name+"/timeline", nil)
	kinds := []string{}
	for _, e := range whole.Items {
		kinds = append(kinds, e.Kind)
	}
	for _, wanted := range []string{"launch", "exit", "session"} {
		if !slices.Contains(kinds, wanted) {
			t.Errorf("no %s in %q", wanted, kinds)
		}
	}
	var summaries []string
	for cursor := ""; ; cursor = "&cursor=" + *page.Next {
		page = api.List[api.TimelineEntry]{}
		d.want(http.StatusOK, &page, "GET", "/v1/sessions/"+name+"/timeline?limit=3"+cursor, nil)
		for _, e := range page.Items {
			summaries = append(summaries, e.Summary)
		}
		if page.Next == nil {
			break
		}
	}
	if len(summaries) != len(whole.Items) {
		t.Errorf("%d entries in pages, %d in all", len(summaries), len(whole.Items))
	}
}

// TestSessionRefused: bad input is one clear problem, and leaves nothing.
func TestSessionRefused(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	plain := listener("demo")
	plain.AllowNonGit = false
	d.problem(http.StatusConflict, api.CodeAdmission, "POST", "/v1/sessions", plain)
	for name, b := range map[string]func(*api.CreateSession){
		"no program": func(b *api.CreateSession) { b.Arguments = nil },
		"bad turns":  func(b *api.CreateSession) { b.Turns = "often" },
		"bad mode":   func(b *api.CreateSession) { b.Mode = "loose" },
		"no date":    func(b *api.CreateSession) { b.Mode = "breakglass" },
		"another day": func(b *api.CreateSession) {
			b.Mode, b.Acknowledged = "breakglass", map[string]string{"breakglass": "2001-01-01"}
		},
		"bad allowance":  func(b *api.CreateSession) { b.Allow = []string{"everything"} },
		"bad policy":     func(b *api.CreateSession) { b.Policy = "version: 9\n" },
		"unknown preset": func(b *api.CreateSession) { b.Policy = "nonsense" },
	} {
		t.Run(name, func(t *testing.T) {
			body := listener("demo")
			b(&body)
			if r := d.send("POST", "/v1/sessions", body); r.status != http.StatusBadRequest {
				t.Errorf("%d: %s", r.status, r.body)
			}
		})
	}
	other := listener("demo")
	other.Agent = "nobody"
	d.problem(http.StatusNotFound, api.CodeNotFound, "POST", "/v1/sessions", other)
	other = listener("missing")
	d.problem(http.StatusNotFound, api.CodeNotFound, "POST", "/v1/sessions", other)
	other = listener("demo")
	other.Arguments = []string{"/no/such/program"}
	d.problem(http.StatusUnprocessableEntity, api.CodeExec, "POST", "/v1/sessions", other)
	other = listener("demo")
	other.Name = "demo"
	d.problem(http.StatusConflict, api.CodeNameTaken, "POST", "/v1/sessions", other)
	var cells api.List[api.CellInfo]
	d.want(http.StatusOK, &cells, "GET", "/v1/cells", nil)
	if len(cells.Items) != 1 {
		t.Errorf("%d cells are left", len(cells.Items))
	}
}

// TestSessionOfAToken: a token sees the sessions of its prefix only, and uses of the
// host only what the operator allowed.
func TestSessionOfAToken(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("mine")
	d.cell("other")
	other := d.session(listener("other"))
	outside := d.token(api.TokenBody{Name: "outside", Scopes: []string{"run"}, Cells: "mine"})
	// The directory of the cell is the host's: without --allow-source no session reads it.
	outside.problem(http.StatusForbidden, api.CodeForbidden, "POST", "/v1/sessions", listener("mine"))
	made := d.send("POST", "/v1/cells", `{"name": "mine-2", "source": {"empty": true}}`)
	if made.status != http.StatusCreated {
		t.Fatalf("%s", made.body)
	}
	t.Cleanup(func() { d.remove("mine-2") })
	own := outside.session(listener("mine-2"))
	var list api.List[api.AgentSession]
	outside.want(http.StatusOK, &list, "GET", "/v1/sessions", nil)
	if len(list.Items) != 1 || list.Items[0].SessionID != own.SessionID {
		t.Errorf("%+v", list.Items)
	}
	// A session of others is as one that does not exist.
	for _, verb := range []string{"", "/turns", "/timeline"} {
		hidden := outside.problem(http.StatusNotFound, api.CodeNotFound, "GET", "/v1/sessions/"+other.SessionID+verb, nil)
		absent := outside.problem(http.StatusNotFound, api.CodeNotFound, "GET", "/v1/sessions/mine-absent"+verb, nil)
		if strings.ReplaceAll(hidden.Detail, other.SessionID, "") != strings.ReplaceAll(absent.Detail, "mine-absent", "") || hidden.Hint != absent.Hint {
			t.Errorf("%+v, %+v", hidden, absent)
		}
	}
	for _, verb := range []string{"/stop", "/rewind"} {
		outside.problem(http.StatusNotFound, api.CodeNotFound, "POST", "/v1/sessions/"+other.SessionID+verb, nil)
	}
	outside.problem(http.StatusNotFound, api.CodeNotFound, "POST", "/v1/sessions/"+other.SessionID+"/send", api.SendRequest{Message: "x"})
	reader := d.token(api.TokenBody{Name: "reader", Scopes: []string{"read"}})
	for _, verb := range []string{"/stop", "/rewind"} {
		reader.problem(http.StatusForbidden, api.CodeForbidden, "POST", "/v1/sessions/"+other.SessionID+verb, nil)
	}
	reader.problem(http.StatusForbidden, api.CodeForbidden, "POST", "/v1/sessions", listener("mine"))
	outside.problem(http.StatusForbidden, api.CodeForbidden, "POST", "/v1/sessions/"+own.SessionID+"/accept", nil)
	outside.problem(http.StatusForbidden, api.CodeForbidden, "POST", "/v1/sessions/"+own.SessionID+"/publish", api.PublishBody{Branch: "b"})
	outside.problem(http.StatusForbidden, api.CodeForbidden, "GET", "/v1/agents/claude/credentials", nil)
}

// TestSessionGrants: who has only a token cannot grant itself what the operator must.
func TestSessionGrants(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	if r := d.send("POST", "/v1/cells", `{"name": "demo", "source": {"empty": true}}`); r.status != http.StatusCreated {
		t.Fatalf("%s", r.body)
	}
	t.Cleanup(func() { d.remove("demo") })
	run := d.token(api.TokenBody{Name: "run", Scopes: []string{"run", "decide"}})
	today := time.Now().UTC().Format(time.DateOnly)
	for name, b := range map[string]func(*api.CreateSession){
		"an agent of the host": func(b *api.CreateSession) { b.Agent, b.Arguments = "claude", nil },
		"breakglass": func(b *api.CreateSession) {
			b.Mode, b.Acknowledged = "breakglass", map[string]string{"breakglass": today}
		},
		"control files": func(b *api.CreateSession) {
			b.Allow, b.Acknowledged = []string{"control-plane-vcs"}, map[string]string{"control-plane-vcs": today}
		},
		"missing controls": func(b *api.CreateSession) { b.AllowDegraded = true },
		"a credential":     func(b *api.CreateSession) { b.Credentials = map[string]api.CredentialValue{"x": {Name: "x"}} },
	} {
		t.Run(name, func(t *testing.T) {
			body := listener("demo")
			b(&body)
			run.problem(http.StatusForbidden, api.CodeForbidden, "POST", "/v1/sessions", body)
		})
	}
	// The mode and the caller's policy cannot add to what the cell allows.
	wide := listener("demo")
	wide.Mode = "development"
	const ask = "getent hosts github.com"
	if i := run.session(wide); d.exec(i.SessionID, "sh", "-c", ask).ExitCode == 0 {
		t.Error("the session reaches what the cell does not")
	}
	if i := d.session(wide); d.exec(i.SessionID, "sh", "-c", ask).ExitCode != 0 {
		t.Error("the operator's session does not reach code hosts")
	}
	admin := d.token(api.TokenBody{Name: "admin", Scopes: []string{"admin"}})
	open := listener("demo")
	open.Mode, open.Acknowledged = "breakglass", map[string]string{"breakglass": today}
	if i := admin.session(open); i.ControlPlane != "unmasked" || !slices.Contains(i.Acknowledged, "breakglass="+today) {
		t.Errorf("%+v", i)
	}
}

// TestSessionOnce: a repeated request starts nothing, and a quota of live cells counts
// sessions.
func TestSessionOnce(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.want(http.StatusCreated, nil, "POST", "/v1/cells", `{"name": "demo", "source": {"empty": true}}`)
	t.Cleanup(func() { d.remove("demo") })
	one := d.token(api.TokenBody{Name: "one", Scopes: []string{"run"}, Quota: &api.Quota{LiveCells: 1}})
	first := one.send("POST", "/v1/sessions", listener("demo"), "Idempotency-Key", "k")
	t.Cleanup(func() { d.remove("demo-generic") })
	again := one.send("POST", "/v1/sessions", listener("demo"), "Idempotency-Key", "k")
	if first.status != http.StatusCreated || again.status != first.status || string(again.body) != string(first.body) {
		t.Errorf("%d %s, then %d %s", first.status, first.body, again.status, again.body)
	}
	one.problem(http.StatusTooManyRequests, api.CodeQuota, "POST", "/v1/sessions", listener("demo"))
	var cells api.List[api.CellInfo]
	d.want(http.StatusOK, &cells, "GET", "/v1/cells", nil)
	if len(cells.Items) != 2 {
		t.Errorf("%d cells", len(cells.Items))
	}
}

// TestRewindQuota: a rewind whose new start the quota refuses leaves the agent running. A
// session does not count besides the one that takes its place.
func TestRewindQuota(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	small := d.token(api.TokenBody{Name: "small", Scopes: []string{"run"}, Cells: "my-", Quota: &api.Quota{LiveCells: 1, Disk: 2 << 20}})
	small.want(http.StatusCreated, nil, "POST", "/v1/cells", `{"name": "my-cell", "source": {"empty": true}}`)
	t.Cleanup(func() { d.remove("my-cell") })
	i := small.session(listener("my-cell"))
	again := "/v1/sessions/" + i.SessionID + "/rewind"
	var back api.RewoundSession
	small.want(http.StatusOK, &back, "POST", again, `{"to": 0}`)
	if back.Session.Status != api.SessionRunning || len(back.Session.RunIDs) != 2 {
		t.Errorf("after a rewind: %+v", back.Session)
	}
	d.ran("my-cell", "head -c 3000000 /dev/urandom > file") // the operator's run has no budget
	if p := small.problem(http.StatusTooManyRequests, api.CodeQuota, "POST", again, `{"to": 0}`); !strings.Contains(p.Detail, "disk") {
		t.Errorf("%+v", p)
	}
	var now api.AgentSession
	d.want(http.StatusOK, &now, "GET", "/v1/sessions/"+i.SessionID, nil)
	if now.Status != api.SessionRunning || now.RunID != back.Session.RunID {
		t.Errorf("a rewind that was refused has stopped the agent: %+v", now)
	}
}

// TestTurnsCountAsDisk: each turn of a session keeps a copy of what it has changed. Turns
// end where what is left of the caller's quota does; the session goes on, and its receipt
// says that turns are missing.
func TestTurnsCountAsDisk(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{AllowSource: []string{os.TempDir()}})
	d.cell("demo")
	const quota = 24 << 20
	small := d.token(api.TokenBody{Name: "small", Scopes: []string{"read", "run"}, Quota: &api.Quota{Disk: quota}})
	i := small.session(listener("demo"))
	var refused error
	for n := 0; n < 50 && refused == nil; n++ {
		small.want(http.StatusOK, nil, "POST", "/v1/cells/"+i.SessionID+"/exec",
			api.ExecBody{Command: []string{"sh", "-c", fmt.Sprintf("head -c 3000000 /dev/urandom > big; echo %d > small", n)}})
		d.engine(func(e *engine.Engine) { _, refused = e.Turn(d.Context(), i.SessionID) })
	}
	if api.CodeOf(refused) != api.CodeTurns {
		t.Errorf("turns had no end: %v", refused)
	}
	d.want(http.StatusOK, &i, "GET", "/v1/sessions/"+i.SessionID, nil)
	if i.Status != api.SessionRunning {
		t.Errorf("the turns ended the session: %+v", i)
	}
	if kept := d.bytesBelow("layers"); kept > quota {
		t.Errorf("%d bytes are kept under a quota of %d", kept, quota)
	}
	d.want(http.StatusOK, nil, "POST", "/v1/sessions/"+i.SessionID+"/stop", nil)
	var receipts api.List[api.ReceiptInfo]
	d.want(http.StatusOK, &receipts, "GET", "/v1/receipts?cell="+i.SessionID, nil)
	page := d.send("GET", "/v1/receipts/"+receipts.Items[len(receipts.Items)-1].ReceiptID, nil)
	if !strings.Contains(string(page.body), "not taken: turns count as the disk space") {
		t.Errorf("the receipt does not say that turns are missing: %s", page.body)
	}
}

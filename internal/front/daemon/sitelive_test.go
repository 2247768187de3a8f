package daemon_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// followLimit is how long the live updates of a test may take: the test fails, and does
// not wait for the limit of its package.
const followLimit = 3 * time.Minute

// follow opens the live updates at an address. Each call of the function that it
// returns waits for the next state.
func (r *reviewer) follow(at string) func() string { return r.followKind(at, "state") }

// followKind is follow for events of a kind.
func (r *reviewer) followKind(at, kind string) func() string {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), followLimit)
	r.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+at, nil)
	if err != nil {
		r.Fatal(err)
	}
	resp, err := r.browser.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	return func() string {
		r.Helper()
		for wanted := false; lines.Scan(); {
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is && wanted {
				return data
			}
			wanted = lines.Text() == "event: "+kind
		}
		r.Fatal("the live updates ended:", lines.Err())
		return ""
	}
}

// TestSiteLive: the list of cells follows every cell that the visitor sees, and no other.
func TestSiteLive(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("mine")
	d.cell("other")
	first := d.ran("mine", "echo x > new")
	var made api.TokenCreated
	d.want(http.StatusCreated, &made, "POST", "/v1/tokens", api.TokenBody{Name: "viewer", Scopes: []string{"read"}, Cells: "mine"})
	all := newReviewer(d)
	bound := emptyReviewer(d, all.base)
	bound.do(http.StatusOK, "POST", "/ui/sign-in", url.Values{"token": {made.Token}})

	before, next := bound.follow("/ui/live")(), all.follow("/ui/live")
	seen := map[string]bool{next(): true}
	renewed := func(change string) {
		t.Helper()
		now := next()
		if seen[now] {
			t.Errorf("%s: the state %s came before", change, now)
		}
		seen[now] = true
	}
	d.ran("other", "echo y > new")
	renewed("a run of another cell")
	d.want(http.StatusCreated, nil, "POST", "/v1/cells/other/fork", api.ForkBody{Name: "other-2"})
	renewed("a fork")
	if bound.follow("/ui/live")() != before {
		t.Error("a change of a hidden cell shows")
	}
	d.want(http.StatusOK, nil, "POST", "/v1/cells/mine/accept", api.AcceptRequest{Run: first})
	renewed("a decision about an older run")
	if bound.follow("/ui/live")() == before {
		t.Error("a change of a visible cell does not show")
	}
}

// TestSiteLiveOutput: a page of a run gets its output while it is written, as text, and
// nothing of runs that the visitor does not see.
func TestSiteLiveOutput(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("mine")
	d.cell("other")
	r := newReviewer(d)
	var job api.RunStarted
	d.want(http.StatusAccepted, &job, "POST", "/v1/cells/mine/runs",
		api.RunBody{Command: []string{"sh", "-c", `echo '<b>first</b>'; sleep 2; echo second >&2; exec sleep 60`}}, "Prefer", "respond-async")
	defer d.want(http.StatusAccepted, nil, "POST", "/v1/runs/"+job.RunID+"/cancel", nil)

	at := "/ui/live?cell=mine&run=" + job.RunID
	next := r.followKind(at+"&shown=0", "output")
	seen := ""
	for !strings.Contains(seen, "second") {
		before := seen
		if err := json.Unmarshal([]byte(next()), &seen); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(seen, "&lt;b&gt;first&lt;/b&gt;") || strings.Contains(seen, "<b>") {
			t.Errorf("output %q", seen)
		}
		if seen == before {
			t.Errorf("the same output again: %q", seen)
		}
	}
	r.get(http.StatusOK, "/ui/runs/"+job.RunID)
	r.has(`data-live="/ui/live?cell=mine&amp;run=`+job.RunID, `<div id="output" data-shown="20">`)
	r.get(http.StatusNotFound, "/ui/live?cell=other&run="+job.RunID)
	r.get(http.StatusNotFound, "/ui/live?cell=mine&run=run_none")

	var made api.TokenCreated
	d.want(http.StatusCreated, &made, "POST", "/v1/tokens", api.TokenBody{Name: "viewer", Scopes: []string{"read"}, Cells: "other"})
	bound := emptyReviewer(d, r.base)
	bound.do(http.StatusOK, "POST", "/ui/sign-in", url.Values{"token": {made.Token}})
	bound.get(http.StatusNotFound, at)
	bound.get(http.StatusNotFound, "/ui/live?cell=other&run="+job.RunID)
}

// TestSiteLiveEvents: the page of events follows the events of a live cell, whose state
// stays the same.
func TestSiteLiveEvents(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	d.want(http.StatusOK, nil, "POST", "/v1/cells/demo/start", nil)
	t.Cleanup(func() { d.remove("demo") })
	r := newReviewer(d)
	r.get(http.StatusOK, "/ui/events?cell=demo")
	r.has(`data-live="/ui/live?cell=demo&amp;events=yes"`)
	for _, at := range []string{"/ui/live?cell=demo&events=yes", "/ui/live?events=yes"} {
		next := r.follow(at)
		before := next()
		d.exec("demo", "true")
		if next() == before {
			t.Errorf("%s: nothing new", at)
		}
	}
}

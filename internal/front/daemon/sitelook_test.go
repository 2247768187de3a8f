package daemon_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestSiteAttempts: the attempts of a race, and other forks, show how many lines they
// added and removed.
func TestSiteAttempts(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.write("list", "1\n2\n3\n")
	d.cell("demo")
	d.want(http.StatusOK, nil, "POST", "/v1/race", api.RaceBody{
		Cell: "demo", Keep: true,
		Attempts: []api.RaceAttemptBody{
			{Command: []string{"sh", "-c", "seq 2 6 > list; seq 40 > more"}},
			{Command: []string{"sh", "-c", "rm list"}},
			{Command: []string{"sh", "-c", "seq 1001 | split -l 1 -a 4 -"}},
			{Command: []string{"false"}},
		},
	})
	d.want(http.StatusCreated, nil, "POST", "/v1/cells/demo/fork", api.ForkBody{Name: "other"})
	d.ran("other", "seq 5 > five")
	r := newReviewer(d)
	r.get(http.StatusOK, "/ui/compare?cell=demo")
	stat := func(files, added, removed string) string {
		return files + `, <span class="plus">+` + added + `</span> <span class="minus">−` + removed + `</span></td>`
	}
	r.has(stat("2 files", "43", "1"), stat("1 file", "0", "3"), stat("1 file", "5", "0"), "1001 files</td>", "0 files</td>", "Changes from attempt", `<option selected>demo-race-2</option>`)
	r.get(http.StatusOK, "/ui/compare?cell=demo-race-1&to=demo-race-2")
	r.has(`<span class="fname">list</span>`, `<span class="fname">more</span>`)
}

// TestSiteActivity: the list of cells says what those at work do, as text.
func TestSiteActivity(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("busy")
	d.cell("rests")
	d.ran("rests", "echo rested")
	agentSession(d, "helper")
	var job api.RunStarted
	d.want(http.StatusAccepted, &job, "POST", "/v1/cells/busy/runs",
		api.RunBody{Command: []string{"sh", "-c", "echo begun; exec sleep 600", "<b>"}}, "Prefer", "respond-async")
	d.untilBegun("busy")
	r := newReviewer(d)
	r.get(http.StatusOK, "/ui/")
	r.has(`href="/ui/runs/`+job.RunID+`"><code>sh -c &#39;echo begun; exec sleep 600&#39; &#39;&lt;b&gt;&#39;</code>`, `href="/ui/cells/helper/session">agent claude</a>`)
	r.lacks("echo rested", "<b></code>")
	if n := strings.Count(r.page, "began "); n != 2 {
		t.Errorf("%d cells are at work, want 2", n)
	}
	d.want(http.StatusAccepted, nil, "POST", "/v1/runs/"+job.RunID+"/cancel", nil)
	d.idle("busy")
	r.get(http.StatusOK, "/ui/")
	r.lacks("echo begun")
}

// TestSiteUnapplied: the page of a cell counts a renamed file once, and says when the
// count has what waits for a decision.
func TestSiteUnapplied(t *testing.T) {
	t.Parallel()
	const waits = "with what waits for a decision"
	d := newDaemon(t)
	d.cell("demo")
	d.ran("demo", "mv hello.txt moved.txt; echo new > new.txt")
	r := newReviewer(d)
	r.get(http.StatusOK, "/ui/cells/demo")
	r.has("<p>2 files <span", waits)
	d.want(http.StatusOK, nil, "POST", "/v1/cells/demo/accept", api.AcceptRequest{})
	r.get(http.StatusOK, "/ui/cells/demo")
	r.has("<p>2 files</p>")
	r.lacks(waits)
	d.want(http.StatusOK, nil, "POST", "/v1/cells/demo/apply", api.ApplyRequest{})
	r.get(http.StatusOK, "/ui/cells/demo")
	r.has("Everything is applied.")
	r.lacks(waits)
	d.ran("demo", "seq 1001 | split -l 1 -a 4 -")
	r.get(http.StatusOK, "/ui/cells/demo")
	r.has("<p>1000 changes or more", waits)
}

// TestSiteFindReceipt: the search for receipts takes the name of a cell, also of one that
// begins like an id, and the ids of runs and receipts.
func TestSiteFindReceipt(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	r := newReviewer(d)
	for _, name := range []string{"demo", "run_tests", "rcpt_tests"} {
		d.cell(name)
		run := d.ran(name, "echo in-"+name)
		r.get(http.StatusOK, "/ui/receipts?q="+name)
		r.has("<h1>Receipts</h1>", "in-"+name)
		var info api.RunInfo
		d.want(http.StatusOK, &info, "GET", "/v1/runs/"+run, nil)
		for _, id := range []string{run, info.ReceiptID} {
			r.get(http.StatusOK, "/ui/receipts?q="+id)
			r.has("What was signed", info.ReceiptID)
		}
	}
	r.get(http.StatusNotFound, "/ui/receipts?q=run_other")
	r.get(http.StatusNotFound, "/ui/receipts?q=rcpt_other")
}

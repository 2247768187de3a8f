//go:build browser

package daemon_test

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/forkcell/forkcell/internal/api"
)

// TestBrowserOutput: output appears while it is written. Who reads an earlier line, or
// has selected one, keeps it until that is over.
func TestBrowserOutput(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	var job api.RunStarted
	d.want(http.StatusAccepted, &job, "POST", "/v1/cells/demo/runs",
		api.RunBody{Command: []string{"sh", "-c", `seq 100 199; i=0; while sleep 0.3; do i=$((i+1)); echo "line $i"; done`}}, "Prefer", "respond-async")
	defer d.want(http.StatusAccepted, nil, "POST", "/v1/runs/"+job.RunID+"/cancel", nil)
	b := newTab(t, newBrowser(t), d)
	b.open("/ui/runs/" + job.RunID)
	b.waits("line 5")
	if !step(b, chromedp.Evaluate[bool](`window.term = () => document.querySelector("#output pre.term"); const t = term(); t.scrollHeight > t.clientHeight && t.scrollHeight - t.scrollTop - t.clientHeight < 8`)) {
		t.Error("the end of the output does not show")
	}
	// Waits until the page got output that it does not show.
	later := `new Promise((done) => { const had = term(); setTimeout(() => done(term() === had), 2500); })`
	if !step(b, chromedp.Evaluate[bool](`term().scrollTop = 40; `+later, chromedp.EvalAwaitPromise)) {
		t.Error("new output took the reader's place")
	}
	if step(b, chromedp.Evaluate[bool](`term().scrollTop = term().scrollHeight; `+later, chromedp.EvalAwaitPromise)) {
		t.Error("new output does not come back at the end")
	}
	if !step(b, chromedp.Evaluate[bool](`getSelection().selectAllChildren(term()); `+later, chromedp.EvalAwaitPromise)) {
		t.Error("new output took the selection")
	}
	if step(b, chromedp.Evaluate[bool](`getSelection().removeAllRanges(); term().focus(); `+later, chromedp.EvalAwaitPromise)) {
		t.Error("new output does not come back after a selection")
	}
	if !step(b, chromedp.Evaluate[bool](`document.activeElement === term()`)) {
		t.Error("new output took the focus")
	}
	b.quiet("output")
}

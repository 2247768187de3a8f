//go:build browser

package daemon_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/forkcell/forkcell/internal/api"
)

// harmless opens a page, and fails the test if what a cell wrote acts on it.
func (b *tab) harmless(at string) {
	b.Helper()
	b.open(at)
	if got := step(b, chromedp.Evaluate[string](`String(window.pwned) + " " + document.title`)); !strings.HasPrefix(got, "undefined ") || !strings.HasSuffix(got, "· Forkcell") {
		b.Errorf("%s: %s", at, got)
	}
	bad := b.texts(`[...document.querySelectorAll("main script, main iframe, main object, main embed, main style, [style], a[href^='javascript' i], a[href^='data' i]")].map((e) => e.outerHTML.slice(0, 100))`)
	if len(bad) > 0 {
		b.Errorf("%s has %q", at, bad)
	}
	// What an attribute says is heard, or shown when the pointer is above it.
	const shown = `document.documentElement.innerText + [...document.querySelectorAll("[title], [aria-label], [alt]")].map((e) => (e.getAttribute("title") || "") + (e.getAttribute("aria-label") || "") + (e.getAttribute("alt") || "")).join("") + [...document.querySelectorAll("title")].map((e) => e.textContent).join("")`
	if step(b, chromedp.Evaluate[bool](`/[\u202a-\u202e\u2066-\u2069\u200b]/.test(`+shown+`)`)) {
		b.Errorf("%s shows an invisible character as it is", at)
	}
}

// poison is a text that tries to act on a page.
const poison = "'\"><script>window.pwned=20</script><img src=//evil.example/x onerror=window.pwned=21>\u202ejavascript:window.pwned=22\u200b"

// TestBrowserHostileTexts: names of directories and programs, arguments, output, reasons,
// scores, questions about policies and wrong addresses are texts on every page.
func TestBrowserHostileTexts(t *testing.T) {
	d := newDaemon(t)
	source := filepath.Join(filepath.Dir(d.source), strings.ReplaceAll(poison, "/", "|"))
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	d.want(http.StatusCreated, nil, "POST", "/v1/cells", api.CreateCell{
		Name: "evil", Source: &api.Source{Path: source}, CellSettings: api.CellSettings{Labels: map[string]string{"note": poison[:30]}},
	})
	d.want(http.StatusOK, nil, "PUT", "/v1/cells/evil/policy", map[string]string{"policy": "dev"})
	var res api.RunAnswer
	d.want(http.StatusOK, &res, "POST", "/v1/cells/evil/runs", api.RunBody{Command: []string{
		"sh", "-c", `n=$(printf %s "$1" | tr / '|'); cp "$(command -v curl)" "$n"; "./$n" --max-time 2 https://denied.example/; echo "$1"; echo "$1" >&2; ln -s "$1" link`, "sh", poison,
	}})
	d.want(http.StatusOK, nil, "POST", "/v1/cells/evil/reject", api.RejectRequest{Run: res.RunID, Reason: poison})
	d.want(http.StatusOK, nil, "POST", "/v1/race", api.RaceBody{
		Cell: "evil", Keep: true, Judge: []string{"sh", "-c", `echo "$1"`, "sh", poison},
		Attempts: []api.RaceAttemptBody{{Command: []string{"sh", "-c", `echo "$1" > result`, "sh", poison}}, {Command: []string{"false", poison}}},
	})
	session := listener("evil")
	session.Arguments = []string{"sh", "-c", `echo "$1"; exec cat`, "sh", poison}
	agent := d.session(session)
	q, run := url.QueryEscape(poison), "/ui/runs/"+res.RunID
	b := newTab(t, newBrowser(t), d)
	for _, at := range []string{
		"/ui/", "/ui/?q=" + q, "/ui/cells/evil", "/ui/cells/evil/apply", "/ui/cells/evil/policy", "/ui/cells/evil-race-1", run, run + "/output", run + "/receipt", run + "/suggest", run + "/policy",
		"/ui/events", "/ui/events?cell=evil&action=denied", "/ui/events?run=" + q, "/ui/receipts", "/ui/receipts?q=" + q, "/ui/compare?cell=evil", "/ui/compare?cell=evil&from=" + q, "/ui/compare?cell=" + q,
		"/ui/cells/" + agent.SessionID + "/session", "/ui/cells/" + url.PathEscape(poison), "/ui/" + url.PathEscape(poison), "/ui/runs/" + url.PathEscape(poison), "/ui/cells/evil/files?path=" + q,
		"/ui/cells/evil/history?path=" + q, "/ui/cells/evil/files?at=" + q, "/ui/policy?cell=evil&host=" + q, "/ui/policy?cell=evil&syscall=" + q, "/ui/policy?cell=evil&host=a.example:443&method=" + q + "&url_path=" + q + "&binary=" + q,
		"/ui/sign-in?next=" + q, "/ui/sign-in?code=" + q,
	} {
		b.harmless(at)
	}
	b.forgive(http.StatusNotFound, http.StatusBadRequest, http.StatusUnauthorized)
	b.quiet("hostile texts")
}

// foreignPage is a page of another origin that tries to use a reviewer's session: by a
// form, a frame, requests with cookies, a script, and the window of the pages.
const foreignPage = `<!DOCTYPE html><title>foreign</title><iframe id="f" src="BASE/ui/"></iframe><iframe name="sink"></iframe>
<form id="decide" method="post" target="sink" action="BASE/ui/runs/RUN/decide"><input name="do" value="accept"><input name="revision" value="REVISION"><input name="form" value="guess"></form>
<script>
window.got = [];
const tried = (what, work) => work.then((r) => window.got.push(what + ": " + r), () => window.got.push(what + ": refused"));
tried("page", fetch("BASE/ui/", { credentials: "include" }).then((r) => r.text()));
tried("live", new Promise((yes, no) => { const s = new EventSource("BASE/ui/live", { withCredentials: true }); s.addEventListener("state", () => yes("state")); s.onerror = no; }));
tried("frame", new Promise((yes, no) => { f.onload = () => { try { yes(f.contentWindow.document.body.innerText || "empty"); } catch (e) { no(e); } }; }));
tried("form", fetch("BASE/ui/runs/RUN/decide", { method: "POST", credentials: "include", mode: "no-cors", body: new URLSearchParams({ do: "accept", revision: "REVISION", form: "guess" }) }).then((r) => r.type));
tried("api", fetch("BASE/v1/cells", { credentials: "include" }).then((r) => r.text()));
decide.submit();
</script>`

// TestBrowserForeign: a page of another origin, in a browser that is signed in, reads
// nothing and decides nothing.
func TestBrowserForeign(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "echo x > new")
	var cell api.StatusResult
	d.want(http.StatusOK, &cell, "GET", "/v1/cells/demo", nil)
	first := newTab(t, newBrowser(t), d)
	html := strings.NewReplacer("BASE", first.base, "RUN", run, "REVISION", strconv.FormatInt(cell.Revision, 10)).Replace(foreignPage)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(html))
	}))
	defer site.Close()
	ctx, cancel := chromedp.NewContext(first.ctx)
	t.Cleanup(cancel)
	foreign := &tab{TB: t, ctx: ctx, base: strings.Replace(site.URL, "127.0.0.1", "foreign.localhost", 1)}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900)); err != nil {
		t.Fatal(err)
	}
	foreign.open("/")
	foreign.until(`window.got.length === 5`)
	for _, got := range foreign.texts(`window.got`) {
		if !strings.HasSuffix(got, ": refused") && got != "form: opaque" {
			t.Errorf("a foreign page got %q", got)
		}
	}
	var info api.RunInfo
	d.want(http.StatusOK, &info, "GET", "/v1/runs/"+run, nil)
	if info.Decision != "pending" {
		t.Errorf("a foreign page has decided: %s", info.Decision)
	}
	first.open("/ui/runs/" + run)
	first.waits("Nobody has decided yet.")
	first.quiet("foreign")
}

// TestBrowserRevoked: a page that is open when its token ends says so, shows nothing new,
// and decides nothing.
func TestBrowserRevoked(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "echo x > new")
	var made api.TokenCreated
	d.want(http.StatusCreated, &made, "POST", "/v1/tokens", api.TokenBody{Name: "alice", Scopes: []string{"read", "run", "decide"}})
	browser := newBrowser(t)
	other := newTab(t, browser, d)
	b := emptyTab(t, browser)
	b.base = other.base
	b.open("/ui/runs/" + run)
	b.do(chromedp.SendKeys(chromedp.CSS(`input[name=token]`), made.Token))
	b.goes(chromedp.Click(chromedp.CSS(`main button`)))
	b.waits("Nobody has decided yet.")
	d.want(http.StatusNoContent, nil, "DELETE", "/v1/tokens/alice", nil)
	b.waits("your session has ended")
	b.goes(chromedp.Click(chromedp.ID("accept")))
	b.waits("Elsewhere, use a token")
	other.open("/ui/runs/" + run)
	other.waits("Nobody has decided yet.")
}

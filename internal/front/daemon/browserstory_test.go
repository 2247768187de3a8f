//go:build browser

package daemon_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/forkcell/forkcell/internal/api"
)

// TestBrowserMouse does the whole story by mouse: from the list of cells to a part of a
// run that is accepted, applied with a control file that was held back, and undone.
func TestBrowserMouse(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "echo hello reviewer > hello.txt; mkdir .vscode; echo {} > .vscode/tasks.json; echo junk > junk")
	b := newTab(t, newBrowser(t), d)
	b.goes(chromedp.Click(chromedp.CSS(`a[href="/ui/cells/demo"]`)))
	b.goes(chromedp.Click(chromedp.CSS(`.grid a[href="/ui/runs/` + run + `"]`)))
	b.waits("hello reviewer")
	b.do(chromedp.Click(chromedp.CSS(`input[name=path][value=junk]`)))
	b.do(chromedp.SendKeys(chromedp.ID("reason"), "tests pass"))
	b.goes(chromedp.Click(chromedp.ID("accept")))
	b.waits("A part of the run is accepted.")
	b.waits("tests pass")
	b.goes(chromedp.Click(chromedp.CSS(`#decide a[href="/ui/cells/demo/apply"]`)))
	b.waits("Held back")
	b.do(chromedp.Click(chromedp.CSS(`input[name=allow][value=".vscode"]`)))
	b.goes(chromedp.Click(chromedp.CSS(`form[method=get] button`)))
	b.goes(chromedp.Click(chromedp.ID("apply")))
	b.waits("The changes are written to the source directory.")
	wantFile(t, d, "hello.txt", "hello reviewer\n")
	if _, err := os.Stat(filepath.Join(d.source, "junk")); err == nil {
		t.Error("a file that was not ticked was written")
	}
	b.goes(chromedp.Click(chromedp.CSS(`a[href="/ui/cells/demo/apply?undo=yes"]`)))
	b.goes(chromedp.Click(chromedp.ID("apply")))
	b.waits("The last apply was taken back.")
	wantFile(t, d, "hello.txt", "hello\n")
	b.quiet("the story")
}

func wantFile(t *testing.T, d *testDaemon, name, want string) {
	t.Helper()
	if text, err := os.ReadFile(filepath.Join(d.source, name)); err != nil || string(text) != want {
		t.Errorf("%s: %q %v", name, text, err)
	}
}

// TestBrowserChoose chooses the winner of a race on the page that compares the attempts:
// not without a confirmation, and not if another reviewer was faster.
func TestBrowserChoose(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	d.want(http.StatusOK, nil, "POST", "/v1/race", api.RaceBody{
		Cell: "demo", Keep: true, Best: "score", Judge: []string{"sh", "-c", "wc -l < result"},
		Attempts: []api.RaceAttemptBody{{Command: []string{"sh", "-c", "echo short > result"}}, {Command: []string{"sh", "-c", "seq 9 > result"}}, {Command: []string{"false"}}},
	})
	browser := newBrowser(t)
	first, second := newTab(t, browser, d), newTab(t, browser, d)
	answer := func(b *tab, yes string) {
		step(b, chromedp.Evaluate[bool](`window.asked = ""; window.confirm = (q) => { window.asked = q; return `+yes+`; }; true`))
	}
	const one = `button[name=attempt][value="demo-race-1"]`
	second.open("/ui/compare?cell=demo")
	first.open("/ui/compare?cell=demo")
	first.waits("Attempts of a race")
	if got := step(first, chromedp.Evaluate[string](`[...document.querySelectorAll("tbody tr")].map((r) => r.children[3].textContent).join(" ")`)); got != "1 9 " {
		t.Errorf("the scores are %q", got)
	}
	answer(first, "false")
	first.do(chromedp.SendKeys(chromedp.ID("reason"), "fewer lines"))
	first.do(chromedp.Click(chromedp.CSS(one)))
	if got := step(first, chromedp.Evaluate[string](`window.asked`)); !strings.Contains(got, "demo-race-1") {
		t.Errorf("it asked %q", got)
	}
	first.do(chromedp.KeyEvent(kb.Enter)) // the focus is on the button
	answer(first, "true")
	first.goes(chromedp.Click(chromedp.CSS(one)))
	first.waits("The attempt is chosen")
	first.waits("★ winner")
	answer(second, "true")
	second.goes(chromedp.Click(chromedp.CSS(`button[name=attempt][value="demo-race-2"]`)))
	second.waits("The state has moved")
	var decisions api.List[api.DecisionInfo]
	d.want(http.StatusOK, &decisions, "GET", "/v1/decisions?cell=demo", nil)
	if len(decisions.Items) != 1 || decisions.Items[0].Reason != "fewer lines" || decisions.Items[0].Race == nil || decisions.Items[0].Race.Winner != 1 {
		t.Errorf("%+v", decisions.Items)
	}
	first.quiet("choose")
}

// TestBrowserKeys does the same by keyboard alone.
func TestBrowserKeys(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "echo hello reviewer > hello.txt; echo junk > junk")
	b := newTab(t, newBrowser(t), d)
	b.open("/ui/runs/" + run)
	at := func() string {
		return step(b, chromedp.Evaluate[string](`(document.querySelector("details.at .fname") || {}).textContent || ""`))
	}
	b.do(chromedp.KeyEvent("?"))
	b.waits("next file")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.do(chromedp.KeyEvent("j"))
	if got := at(); got != "hello.txt" {
		t.Errorf("after j: %q", got)
	}
	b.do(chromedp.KeyEvent("j"))
	b.do(chromedp.KeyEvent("x"))
	if got := at(); got != "junk" {
		t.Errorf("after j j: %q", got)
	}
	b.do(chromedp.KeyEvent("k"))
	b.do(chromedp.KeyEvent("o"))
	if step(b, chromedp.Evaluate[bool](`document.querySelector("details.at").open`)) {
		t.Error("o does not fold")
	}
	b.do(chromedp.KeyEvent("c"))
	b.do(chromedp.KeyEvent("jar of keys")) // j, a and r are letters here
	b.do(chromedp.Blur(chromedp.ID("reason")))
	b.do(chromedp.KeyEvent("a"))
	b.goes(chromedp.KeyEvent(kb.Enter))
	b.waits("A part of the run is accepted.")
	b.waits("jar of keys")
	b.open("/ui/cells/demo/apply")
	b.do(chromedp.KeyEvent("a"))
	b.goes(chromedp.KeyEvent(kb.Enter))
	wantFile(t, d, "hello.txt", "hello reviewer\n")
	b.open("/ui/cells/demo/apply?undo=yes")
	b.do(chromedp.KeyEvent("a"))
	b.goes(chromedp.KeyEvent(kb.Enter))
	b.waits("The last apply was taken back.")
	wantFile(t, d, "hello.txt", "hello\n")

	next := d.ran("demo", "echo more > more")
	b.open("/ui/runs/" + next)
	b.do(chromedp.KeyEvent("r"))
	b.goes(chromedp.KeyEvent(kb.Enter))
	b.waits("The run is rejected.")
	b.quiet("keys")
}

// TestBrowserLive: a page shows what happens elsewhere without being loaded again, keeps
// what the reader has begun, and tells the second reviewer that the state has moved.
func TestBrowserLive(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "echo x > new")
	browser := newBrowser(t)
	first, second, cells := newTab(t, browser, d), newTab(t, browser, d), newTab(t, browser, d)
	cells.open("/ui/cells/demo")
	cells.waits("To decide")
	first.open("/ui/runs/" + run)
	second.open("/ui/runs/" + run)
	second.do(chromedp.SendKeys(chromedp.ID("reason"), "mine"))
	first.goes(chromedp.Click(chromedp.ID("accept")))
	first.waits("The run is accepted.")
	cells.waits("Nothing waits for a decision.")
	second.waits("The cell has changed since you opened this page.")
	if got := step(second, chromedp.Value(chromedp.ID("reason"))); got != "mine" {
		t.Errorf("what was written is lost: %q", got)
	}
	second.goes(chromedp.Click(chromedp.ID("reject")))
	second.waits("The state has moved")
	d.ran("demo", "echo y > other")
	cells.waits("pending")
	first.quiet("first")
	cells.quiet("cells")
}

// TestBrowserRestart: a page that is open while the daemon is restarted says so, and a new
// link leads to the cell.
func TestBrowserRestart(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	b := newTab(t, newBrowser(t), d)
	b.open("/ui/cells/demo")
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	b.waits("The daemon does not answer.")
	d.start(api.ServeOptions{})
	again := newTab(t, newBrowser(t), d)
	again.open("/ui/cells/demo")
	again.waits("demo")
	again.quiet("after the restart")
}

// hostile makes a cell whose names, contents, output and reasons try to act on the page.
func hostile(d *testDaemon) (run string) {
	d.Helper()
	script := `printf '<script>window.pwned=1</script><img src=x onerror="window.pwned=2">\n' > page.html
printf '<svg xmlns="http://www.w3.org/2000/svg" onload="window.pwned=3"><script>window.pwned=4</script></svg>' > picture.svg
(printf '\000'; cat picture.svg) > fake.png; printf '\000GIF<script>window.pwned=5</script>' > fake.gif
echo x > '<img src=http:evil.example onerror=window.pwned=6>'
echo x > '"><script>window.pwned=7<'
echo x > "$(printf 'bidi\342\200\256gpj.exe')"; echo x > "$(printf 'zero\342\200\213width')"; echo x > "$(printf 'invalid\377name')"
echo x > "$(printf 'new\nline')"; echo x > '{{.}}'; echo x > 'javascript:window.pwned=8'
printf 'if admin\342\200\256\342\201\246 then\342\201\251 {\n\302\240\tinvisible\n' > bidi.go
printf '\000\001binary' > bin; printf 'inv\377alid\n' > invalid.txt
head -c 900000 /dev/zero | tr '\0' 'a' > line.txt
head -c 50000000 /dev/zero | tr '\0' 'b' > huge-line.txt
ln -s 'javascript:window.pwned=9' link
printf '</pre><script>window.pwned=10</script>\033]0;title\007\033[8mhidden\033[0m\033[2J\033[31mred\n'
head -c 3000000 /dev/zero | tr '\0' 'c'`
	run = d.ran("evil", script)
	return run
}

// TestBrowserHostile: a cell full of markup, script, invisible characters and long lines
// runs no script in the page and makes no request leave.
func TestBrowserHostile(t *testing.T) {
	d := newDaemon(t)
	d.want(http.StatusCreated, nil, "POST", "/v1/cells", api.CreateCell{
		Name: "evil", Source: &api.Source{Empty: true},
		CellSettings: api.CellSettings{Labels: map[string]string{"note": `<script>window.pwned=11</script>`}},
	})
	run := hostile(d)
	d.want(http.StatusOK, nil, "POST", "/v1/cells/evil/accept", api.AcceptRequest{Run: run, Reason: `"><script>window.pwned=12</script><img src=x onerror=window.pwned=13>`})
	b := newTab(t, newBrowser(t), d)
	names := []string{
		"page.html", "picture.svg", "fake.png", "fake.gif", "bidi.go", "bin", "invalid.txt", "line.txt", "huge-line.txt", "link", "{{.}}",
		"<img src=http:evil.example onerror=window.pwned=6>", `"><script>window.pwned=7<`, "bidi\u202egpj.exe", "zero\u200bwidth", "invalid\xffname", "new\nline", "javascript:window.pwned=8",
	}
	pages := []string{
		"/ui/", "/ui/?q=" + url.QueryEscape(`"><script>window.pwned=14</script>`), "/ui/cells/evil", "/ui/runs/" + run, "/ui/runs/" + run + "?view=split", "/ui/runs/" + run + "/output",
		"/ui/runs/" + run + "/receipt", "/ui/cells/evil/files", "/ui/events", "/ui/receipts", "/ui/compare?cell=evil&from=base", "/ui/runs/" + run + "?done=" + url.QueryEscape("<script>"),
		"/ui/policy?cell=evil&path=" + url.QueryEscape(`/<script>window.pwned=15</script>`), "/ui/cells/evil/history?path=page.html",
	}
	for _, name := range names {
		pages = append(pages, "/ui/runs/"+run+"/file?path="+url.QueryEscape(name))
		if name != "link" {
			pages = append(pages, "/ui/cells/evil/files?view=file&path="+url.QueryEscape(name))
		}
	}
	for _, at := range pages {
		b.harmless(at)
	}
	b.open("/ui/runs/" + run)
	b.waits("U+202E")
	// Two files only pretend to be pictures, and are not sent as such.
	refused := 0
	b.mu.Lock()
	b.seen = slices.DeleteFunc(b.seen, func(s string) bool {
		pretends := strings.HasPrefix(s, "log: Failed to load resource") && strings.Contains(s, "/image?path=fake.")
		if pretends {
			refused++
		}
		return pretends
	})
	b.mu.Unlock()
	if refused == 0 {
		t.Error("no picture was refused")
	}
	b.quiet("hostile")
}

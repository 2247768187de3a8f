//go:build browser

package daemon_test

import (
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/forkcell/forkcell/internal/api"
)

// TestBrowserEnter: Enter in the field of the reason decides nothing, and Restore asks
// first.
func TestBrowserEnter(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "echo x > new")
	b := newTab(t, newBrowser(t), d)
	for _, state := range []string{"pending", "accepted"} {
		b.open("/ui/runs/" + run)
		b.waits(state)
		step(b, chromedp.Evaluate[bool](`window.sent = window.asked = 0;
			document.addEventListener("submit", (e) => { window.sent++; e.preventDefault(); });
			window.confirm = () => { window.asked++; return false; }; true`))
		b.do(chromedp.SendKeys(chromedp.ID("reason"), "why"))
		b.do(chromedp.SendKeys(chromedp.ID("reason"), kb.Enter))
		b.do(chromedp.Click(chromedp.ID("restore")))
		if !step(b, chromedp.Evaluate[bool](`document.querySelector("#decide button").offsetParent === null`)) {
			t.Error("the button that Enter presses shows")
		}
		if !step(b, chromedp.Evaluate[bool](`window.sent === 0 && window.asked === 1`)) {
			t.Errorf("a run that is %s: Enter or a refused question sends the form", state)
		}
		d.want(http.StatusOK, nil, "POST", "/v1/cells/demo/accept", api.AcceptRequest{Run: run})
	}
	b.quiet("Enter")
}

// TestBrowserTicks: a file that was unticked stays so on other pages of the list, in
// another view and after a look elsewhere, and is left out.
func TestBrowserTicks(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "for i in $(seq 100 249); do echo $i > file$i; done")
	b := newTab(t, newBrowser(t), d)
	b.open("/ui/runs/" + run)
	b.waits("Files on other pages of the list are accepted, too.")
	b.do(chromedp.Click(chromedp.CSS(`input[name=path][value=file120]`)))
	b.do(chromedp.Click(chromedp.CSS(`input[name=path][value=file121]`)))
	b.do(chromedp.Click(chromedp.CSS(`input[name=path][value=file121]`)))
	b.goes(chromedp.Click(chromedp.CSS(`a[href*="view=split"]`)))
	b.goes(chromedp.Click(chromedp.CSS(`a[rel=next]`)))
	b.waits("Left out of other pages of the list: 1.")
	b.do(chromedp.Click(chromedp.CSS(`input[name=path][value=file249]`)))
	b.goes(chromedp.Click(chromedp.CSS(`a[rel=prev]`)))
	if got := b.texts(`Array.from(document.querySelectorAll("input[name=path]:not(:checked)")).map((e) => e.value)`); len(got) != 1 || got[0] != "file120" {
		t.Errorf("unticked on the first page: %q", got)
	}
	b.goes(chromedp.Click(chromedp.ID("accept")))
	b.waits("A part of the run is accepted.")
	var res api.RunAnswer
	d.want(http.StatusOK, &res, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sh", "-c", "test $(ls file* | wc -l) = 148 -a ! -e file120 -a ! -e file249"}})
	if res.ExitCode != 0 {
		t.Error("the accepted state has files that were unticked")
	}
	b.quiet("ticks")
}

// TestBrowserShown: with earlier undecided work, what the page has ticked is what the directory
// gets, entry by entry, both by the page of the run alone and by that of all work.
func TestBrowserShown(t *testing.T) {
	for name, c := range map[string]struct {
		query, says string
		untick      string
	}{
		"this run": {"", "The state has earlier undecided work whose changes are not in this list", "left"},
		"all":      {"?all=yes", "These are the changes of 2 undecided runs and captured states.", "early"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			d.cell("demo")
			d.ran("demo", "echo e > early; echo e > both; mkdir d; echo e > d/e; rm hello.txt; echo e > ~/.early")
			run := d.ran("demo", "echo r > mine; echo r >> both; echo r > d/r; echo r > left; echo r > ~/.mine")
			before := entriesOf(t, d.source)
			b := newTab(t, newBrowser(t), d)
			b.open("/ui/runs/" + run + c.query)
			b.waits(c.says)
			b.waits("outside the workspace")
			b.do(chromedp.Click(chromedp.CSS(`input[name=path][value=` + c.untick + `]`)))
			want := map[string]bool{}
			for _, value := range b.texts(`Array.from(document.querySelectorAll("input[name=path]:checked")).map((e) => e.value)`) {
				for path := range strings.SplitSeq(value, "&") {
					path, err := url.QueryUnescape(path)
					if err != nil {
						t.Fatal(err)
					}
					// A file needs its directory, whoever made that.
					for ; path != "." && before[path] != "directory"; path = filepath.Dir(path) {
						want[path] = true
					}
				}
			}
			b.goes(chromedp.Click(chromedp.ID("accept")))
			b.waits("A part of the run is accepted.")
			d.want(http.StatusOK, nil, "POST", "/v1/cells/demo/apply", api.ApplyRequest{})
			got, after := map[string]bool{}, entriesOf(t, d.source)
			for _, set := range []map[string]string{before, after} {
				for path := range set {
					if before[path] != after[path] {
						got[path] = true
					}
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("the page showed %v, and the directory got %v", want, got)
			}
			b.quiet("shown")
		})
	}
}

// entriesOf returns a text for each entry of a directory, which differs with its contents.
func entriesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		text := []byte("directory")
		if !e.IsDir() {
			text, err = os.ReadFile(path)
		}
		found[strings.TrimPrefix(path, dir+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestBrowserMeanwhile: what a reader begins while a page loads itself again is kept.
func TestBrowserMeanwhile(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "echo x > new")
	b := newTab(t, newBrowser(t), d)
	b.open("/ui/runs/" + run)
	step(b, chromedp.Evaluate[bool](`{ const load = window.fetch;
		window.fetch = async (...a) => {
			const answer = await load(...a);
			document.querySelector("input[name=path]").click();
			return answer;
		}; true }`))
	d.ran("demo", "echo y > other")
	b.waits("The cell has changed since you opened this page.")
	if !step(b, chromedp.Evaluate[bool](`!document.querySelector("input[name=path]").checked`)) {
		t.Error("the file is ticked again")
	}
	b.quiet("meanwhile")
}

// TestBrowserRenewed: a page that has loaded itself again still says what happens.
func TestBrowserRenewed(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	b := newTab(t, newBrowser(t), d)
	b.open("/ui/cells/demo")
	b.waits("Nothing waits for a decision.")
	d.ran("demo", "echo x > new")
	b.waits("pending")
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	b.waits("The daemon does not answer.")
}

// TestBrowserTabs: a page opens while more tabs follow the daemon than the browser has
// connections to it, and a tab that was hidden shows the present state again.
func TestBrowserTabs(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	first := newTab(t, newBrowser(t), d)
	first.open("/ui/cells/demo")
	first.waits("Nothing waits for a decision.")
	see := func(b *tab, hidden string) {
		step(b, chromedp.Evaluate[bool](`Object.defineProperty(document, "hidden", { configurable: true, value: `+hidden+` });
			document.dispatchEvent(new Event("visibilitychange")); true`))
	}
	tabs := []*tab{first}
	for range 8 {
		see(tabs[len(tabs)-1], "true")
		ctx, cancel := chromedp.NewContext(first.ctx)
		t.Cleanup(cancel)
		next := &tab{TB: t, ctx: ctx, base: first.base, host: first.host}
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900)); err != nil {
			t.Fatal(err)
		}
		next.open("/ui/cells/demo")
		next.waits("demo")
		tabs = append(tabs, next)
	}
	d.ran("demo", "echo x > new")
	tabs[8].waits("pending")
	see(tabs[8], "true")
	see(first, "false")
	first.waits("pending")
	first.quiet("tabs")
}

//go:build browser

package daemon_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a tab of a real browser. It notes everything that must not happen: an error on
// the console, a dialog, a request to another host.
type tab struct {
	testing.TB
	ctx  context.Context
	base string
	host string

	mu   sync.Mutex
	seen []string
}

// tabTime bounds one step in a browser, also on a loaded machine.
const tabTime = time.Minute

// newBrowser starts Chromium for a test. Names of other hosts lead nowhere.
func newBrowser(t testing.TB) context.Context {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is not installed; `make test-browser` installs it")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WSURLReadTimeout(tabTime),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE *.localhost"), chromedp.Flag("force-color-profile", "srgb"))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// newTab opens a tab with cookies of its own, and signs it in to the pages of a daemon.
func newTab(t testing.TB, browser context.Context, d *testDaemon) *tab {
	t.Helper()
	link := signInLink(d)
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	b := emptyTab(t, browser)
	b.base, b.host = "http://"+u.Host, u.Host
	b.listen()
	b.do(chromedp.Navigate(link))
	b.waits("Cells")
	return b
}

// emptyTab opens a tab with cookies of its own.
func emptyTab(t testing.TB, browser context.Context) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	// The first action makes the tab, which ends with the context of that action.
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900)); err != nil {
		t.Fatal(err)
	}
	return &tab{TB: t, ctx: ctx}
}

// listen begins to note what must not happen.
func (b *tab) listen() {
	b.Helper()
	watch(b, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) string { return "exception: " + e.ExceptionDetails.Text })
	watch(b, runtime.ConsoleAPICalled, func(e runtime.EventConsoleAPICalled) string {
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			return "console: " + string(e.Type)
		}
		return ""
	})
	watch(b, log.EntryAdded, func(e log.EventEntryAdded) string {
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			return "log: " + e.Entry.Text + " " + e.Entry.URL
		}
		return ""
	})
	watch(b, page.JavascriptDialogOpening, func(e page.EventJavascriptDialogOpening) string { return "dialog: " + e.Message })
	watch(b, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) string {
		if u, err := url.Parse(e.Request.URL); err != nil || u.Host != b.host || u.Scheme != "http" {
			return "request: " + e.Request.URL
		}
		return ""
	})
	if _, err := chromedp.Call(b.ctx, network.Enable, network.EnableParams{}); err != nil {
		b.Fatal(err)
	}
	if _, err := chromedp.Call(b.ctx, log.Enable, cdp.Empty{}); err != nil {
		b.Fatal(err)
	}
}

// watch notes what describe returns for each event, unless it is empty.
func watch[E any](b *tab, ev cdp.Event[E], describe func(E) string) {
	events := chromedp.Events(b.ctx, ev)
	go func() {
		for e, err := range events {
			if err != nil {
				return // the tab is closed
			}
			if what := describe(e); what != "" {
				b.mu.Lock()
				b.seen = append(b.seen, what)
				b.mu.Unlock()
			}
		}
	}()
}

// quiet fails the test if something happened that must not.
func (b *tab) quiet(where string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.seen {
		b.Errorf("%s: %s", where, s)
	}
	b.seen = nil
}

// step runs an action in the browser.
func step[T any](b *tab, a chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, tabTime)
	defer cancel()
	result, err := chromedp.Run(ctx, a)
	if err != nil {
		b.Fatalf("%v at\n%s", err, b.text())
	}
	return result
}

// do carries out steps in the browser.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	for _, s := range steps {
		step(b, s)
	}
}

// open loads a page.
func (b *tab) open(at string) {
	b.Helper()
	b.do(chromedp.Navigate(b.base + at))
}

// goes carries out steps that lead to another page, and waits for it.
func (b *tab) goes(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, tabTime)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, steps...); err != nil {
		b.Fatalf("%v at\n%s", err, b.text())
	}
}

// texts returns what script returns: a list of texts.
func (b *tab) texts(script string) []string {
	b.Helper()
	return step(b, chromedp.Evaluate[[]string](script))
}

// waits waits until a text is on the page.
func (b *tab) waits(text string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, tabTime)
	defer cancel()
	for {
		_, err := chromedp.Run(ctx, chromedp.Poll[bool](`document.body && document.body.innerText.includes(`+strconv.Quote(text)+`)`))
		if err == nil {
			return
		}
		if ctx.Err() != nil { // else the tab went on to another page meanwhile
			b.Fatalf("no %q on the page: %v\n%s", text, err, b.text())
		}
	}
}

// text returns what the page says.
func (b *tab) text() string {
	text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
	return text
}

// looks sets the colours and the width of the tab.
func (b *tab) looks(scheme string, width int64) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, 900))
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		b.Fatal(err)
	}
}

// picture keeps a screenshot of the page, for people to look at.
func (b *tab) picture(name string, whole bool) {
	b.Helper()
	dir := os.Getenv("FORKCELL_SCREENSHOTS")
	if dir == "" {
		return
	}
	take := chromedp.CaptureScreenshot()
	if whole {
		take = chromedp.FullScreenshot(100)
	}
	png := step(b, take)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, strings.Trim(name, "-")+".png"), png, 0o644); err != nil {
		b.Fatal(err)
	}
}

// forgive forgets the notes about pages that were asked for with an error as answer.
func (b *tab) forgive(statuses ...int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = slices.DeleteFunc(b.seen, func(s string) bool {
		return slices.ContainsFunc(statuses, func(n int) bool {
			return strings.HasPrefix(s, "log: Failed to load resource: the server responded with a status of "+strconv.Itoa(n))
		})
	})
}

// until waits until an expression is true on the page.
func (b *tab) until(expression string) {
	b.Helper()
	step(b, chromedp.Poll[bool](expression))
}

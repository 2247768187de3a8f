//go:build browser

package daemon_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// squeezed returns the texts in lists that are broken after each letter, or go over what
// is beside them.
const squeezed = `[...document.querySelectorAll("table.list td")].filter(td => {
	const text = td.innerText.trim();
	return td.offsetParent && text.length > 3 && td.clientWidth < 18 || td.scrollWidth > td.clientWidth + 1 && getComputedStyle(td).overflowX === "visible";
}).map(td => td.innerText).join("; ")`

// TestBrowserNarrow: on a narrow screen the form of a run covers nothing, what waits for
// a decision shows without scrolling, and every page can be reached.
func TestBrowserNarrow(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	for range 6 {
		d.ran("demo", "echo x >> old")
	}
	run := d.ran("demo", "echo x > new")
	b := newTab(t, newBrowser(t), d)
	b.looks("light", 320)
	b.open("/ui/runs/" + run)
	b.waits("pending")
	if !step(b, chromedp.Evaluate[bool](`getComputedStyle(document.querySelector("#decide")).position === "static"`)) {
		t.Error("the form covers the page")
	}
	b.open("/ui/")
	b.waits("pending")
	for _, selector := range []string{"table.list .badge.wait", ".top nav a:last-child"} {
		if !step(b, chromedp.Evaluate[bool](`document.querySelector("`+selector+`").getBoundingClientRect().right <= 320`)) {
			t.Errorf("%s is outside of the screen", selector)
		}
	}
	b.open("/ui/cells/demo")
	b.waits("Lineage")
	if !step(b, chromedp.Evaluate[bool](`document.querySelector(".graph a.head").getBoundingClientRect().right <= 320`)) {
		t.Error("the graph does not show the head")
	}
	d.want(http.StatusOK, nil, "POST", "/v1/cells/demo/accept", nil)
	for _, page := range []string{"/ui/", "/ui/events", "/ui/receipts", "/ui/cells/demo", "/ui/doctor", "/ui/runs/" + run, "/ui/cells/demo/apply", "/ui/cells/demo/files"} {
		b.open(page)
		b.waits("Cells")
		if !step(b, chromedp.Evaluate[bool](`[...document.querySelectorAll("table.list")].every(t => t.scrollWidth <= t.parentNode.clientWidth)`)) {
			t.Errorf("%s: a list has columns that are out of sight", page)
		}
		if bad := step(b, chromedp.Evaluate[string](squeezed)); bad != "" {
			t.Errorf("%s: text of a list has no room: %s", page, bad)
		}
	}
	b.quiet("narrow")
}

// TestBrowserOutOfSight: the check of what is beside the window finds it.
func TestBrowserOutOfSight(t *testing.T) {
	b := emptyTab(t, newBrowser(t))
	b.looks("light", 320)
	for body, want := range map[string]string{
		`<button>Send</button>`:                         "",
		`<main><p style="width: 400px">wide</p></main>`: "the page is ",
		`<div style="overflow: hidden"><button style="margin-left: 310px">Send</button></div>`:          "outside: BUTTON",
		`<div style="overflow: hidden"><a href="#" style="position: relative; left: -20px">x</a></div>`: "outside: A",
		`<div class="graph" style="overflow: auto"><a href="#" style="margin-left: 400px">x</a></div>`:  "",
	} {
		b.do(chromedp.Navigate("about:blank"))
		if !step(b, chromedp.Evaluate[bool](`document.body.innerHTML = `+"`"+body+"`"+`, true`)) {
			t.Fatal(body)
		}
		bad := b.texts(outOfSight)
		if len(bad) > 0 != (want != "") || want != "" && !strings.HasPrefix(bad[0], want) {
			t.Errorf("%s: found %q, want %q", body, bad, want)
		}
	}
}

// TestBrowserMessages: the messages of a session have room in a narrow window.
func TestBrowserMessages(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	i := d.session(listener("demo"))
	for _, text := range []string{"one", strings.Repeat("long", 60)} {
		d.says(i.SessionID, text)
	}
	b := newTab(t, newBrowser(t), d)
	for _, width := range []int64{320, 390, 2560} {
		b.looks("dark", width)
		b.open("/ui/cells/" + i.SessionID + "/session")
		b.waits("241 bytes typed into")
		bad := append(b.texts(outOfSight), b.texts(contrast)...)
		if len(bad) > 0 {
			t.Errorf("in a window of %d:\n%s", width, strings.Join(bad, "\n"))
		}
		b.picture("messages-"+strconv.FormatInt(width, 10), true)
	}
	b.quiet("messages")
}

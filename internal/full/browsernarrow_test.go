//go:build browser

package full_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestBrowserNarrow: on a narrow screen the form of a run covers nothing, what waits for
// a decision shows without scrolling, and every page can be reached.
func TestBrowserNarrow(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
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
	for _, page := range []string{"/ui/", "/ui/events", "/ui/receipts", "/ui/cells/demo", "/ui/doctor"} {
		b.open(page)
		b.waits("Cells")
		if !step(b, chromedp.Evaluate[bool](`[...document.querySelectorAll("table.list")].every(t => t.scrollWidth <= t.parentNode.clientWidth)`)) {
			t.Errorf("%s: a list has columns that are out of sight", page)
		}
	}
	b.quiet("narrow")
}

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
	b.quiet("narrow")
}

//go:build browser

package full_test

import (
	"net/http"
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

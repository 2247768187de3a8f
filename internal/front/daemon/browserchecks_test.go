//go:build browser

package daemon_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// colours are functions for checks of colours (WCAG 2): of an element's computed colours.
const colours = `
  const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; } return [255, 255, 255, 1]; };
  const ratio = (one, two) => { const a = light(one), b = light(two); return (Math.max(a, b) + .05) / (Math.min(a, b) + .05); };
  const named = (e) => e.tagName + "." + (e.getAttribute("class") || "") + " " + e.textContent.trim().slice(0, 30);`

// contrast lists the texts whose colour is too near to what is behind them (AA).
const contrast = `(() => {` + colours + `
  const bad = new Set();
  for (const e of document.querySelectorAll("body *")) {
    if (e.closest("svg") || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility()) continue;
    const r = ratio(parse(getComputedStyle(e).color), behind(e));
    if (r < 4.5) bad.add("contrast " + r.toFixed(2) + ": " + named(e));
  }
  return [...bad];
})()`

// colourAlone lists what differs from the text around it by its colour only: links amid
// text, and changed lines without a sign.
const colourAlone = `(() => {` + colours + `
  const bad = new Set();
  for (const e of document.querySelectorAll("p a, li a, dd a")) {
    const amid = [...e.parentElement.childNodes].some((n) => n.nodeType === 3 && /\p{L}/u.test(n.textContent));
    const s = getComputedStyle(e), around = getComputedStyle(e.parentElement);
    if (!amid || !e.checkVisibility() || s.textDecorationLine.includes("underline") || s.fontWeight !== around.fontWeight || parse(s.borderTopColor)[3] && s.borderTopWidth !== "0px") continue;
    bad.add("colour alone: " + named(e));
  }
  for (const e of document.querySelectorAll("tr.add, tr.del")) if (!/[+-]/.test(e.querySelector(".sg")?.textContent)) bad.add("colour alone: " + named(e));
  for (const e of document.querySelectorAll(".split td.add, .split td.del")) if (!/[+-]/.test(getComputedStyle(e, "::before").content)) bad.add("colour alone: " + named(e));
  return [...bad];
})()`

// outlines lists what a person at the keyboard cannot see the focus on.
const outlines = `(() => {` + colours + `
  const bad = new Set();
  for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]")) {
    if (!e.checkVisibility() || e.disabled || e.closest("svg")) continue;
    e.focus({ focusVisible: true, preventScroll: true });
    const s = getComputedStyle(e);
    if (document.activeElement !== e) bad.add("no focus: " + named(e));
    else if (s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 1 || s.outlineStyle !== "auto" && ratio(parse(s.outlineColor), behind(e.parentElement)) < 3) bad.add("no outline: " + named(e));
  }
  document.activeElement.blur();
  return [...bad];
})()`

// labels lists what a reader that hears the page cannot name.
const labels = `(() => {
  const bad = [];
  for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea")) if (!(e.labels && e.labels.length) && !e.ariaLabel) bad.push("no label: " + e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll("a, button")) if (!(e.textContent.trim() || e.ariaLabel)) bad.push("no text: " + e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll("img")) if (!e.alt) bad.push("no alt: " + e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll("th")) if (!e.scope && !e.closest("thead")) bad.push("no scope: " + e.outerHTML.slice(0, 80));
  if (document.documentElement.lang !== "en") bad.push("no language");
  if (document.querySelectorAll("h1").length !== 1) bad.push("not one h1");
  if (!document.title) bad.push("no title");
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of new Set(ids)) if (ids.filter((i) => i === id).length > 1) bad.push("id twice: " + id);
  return bad;
})()`

// sound lists what the checks have against the page.
func (b *tab) sound() []string {
	b.Helper()
	var bad []string
	for _, check := range []string{contrast, colourAlone, labels, outlines} {
		bad = append(bad, b.texts(check)...)
	}
	return bad
}

const goodPage = `<!DOCTYPE html><html lang="en"><head><title>A page</title><link rel="icon" href="data:,"><style>
body { background: #fff; color: #222; } a { color: #06635c; text-decoration: underline; } :focus-visible { outline: 2px solid #06635c; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #eee; } a { color: #7fd6cf; } :focus-visible { outline: 2px solid #7fd6cf; } }
</style></head><body><h1 id="top">A page</h1><p>Read <a href="/x">the guide</a> first.</p>
<form><label>Name <input name="n"></label> <input aria-label="Why" name="w"> <button>Send</button></form>
<img src="data:," alt="A picture"><table><thead><tr><th>Run</th></tr></thead><tr><th scope="row">One</th></tr>
<tr class="add"><td class="sg">+</td><td>new</td></tr></table>
<style>.split .add::before { content: "+"; }</style><table class="split"><tr><td class="add">new</td></tr></table></body></html>`

// TestBrowserChecks: each check of the pages fails for a page with that fault, and for
// no other.
func TestBrowserChecks(t *testing.T) {
	faults := []struct {
		name, from, to, scheme string
		want                   string // "" for none
	}{
		{"none, light", "", "", "light", ""},
		{"none, dark", "", "", "dark", ""},
		{"field without a label", `aria-label="Why" `, "", "light", "no label: "},
		{"button without a name", "<button>Send</button>", "<button></button>", "light", "no text: "},
		{"link without a name", `>the guide<`, "><", "light", "no text: "},
		{"picture without a text", ` alt="A picture"`, "", "light", "no alt: "},
		{"header of a row", ` scope="row"`, "", "light", "no scope: "},
		{"language", ` lang="en"`, "", "light", "no language"},
		{"heading", `<h1 id="top">A page</h1>`, "", "light", "not one h1"},
		{"two headings", "</form>", "</form><h1>Another</h1>", "light", "not one h1"},
		{"title", "<title>A page</title>", "", "light", "no title"},
		{"id twice", "<form>", `<form id="top">`, "light", "id twice: top"},
		{"low contrast, light", "color: #222", "color: #888", "light", "contrast 3.54: "},
		{"low contrast, dark", "color: #eee", "color: #666", "dark", "contrast 3.29: "},
		{"low contrast of a part", "<button>", `<button style="color: #fff; background: #eee">`, "light", "contrast 1.16: BUTTON"},
		{"link in colour alone", "text-decoration: underline", "text-decoration: none", "light", "colour alone: A"},
		{"change in colour alone", `class="sg">+<`, `class="sg"><`, "light", "colour alone: TR"},
		{"change beside the old one in colour alone", `content: "+"`, `content: ""`, "light", "colour alone: TD"},
		{"no outline", ":focus-visible { outline: 2px solid #06635c; }", ":focus-visible { outline: none; }", "light", "no outline: "},
		{"outline that cannot be seen", "outline: 2px solid #06635c", "outline: 2px solid #ddd", "light", "no outline: "},
		{"outline that cannot be seen, dark", "outline: 2px solid #7fd6cf", "outline: 2px solid #333", "dark", "no outline: "},
	}
	browser := newBrowser(t)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			html := strings.Replace(goodPage, f.from, f.to, 1)
			if f.from != "" && html == goodPage {
				t.Fatalf("the page has no %s", f.from)
			}
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				_, _ = w.Write([]byte(html))
			}))
			defer site.Close()
			b := emptyTab(t, browser)
			b.looks(f.scheme, 1280)
			b.do(chromedp.Navigate(strings.Replace(site.URL, "127.0.0.1", "checks.localhost", 1)))
			bad := b.sound()
			if len(bad) > 0 != (f.want != "") {
				t.Errorf("found %q, want %q", bad, f.want)
			}
			for _, what := range bad {
				if !strings.HasPrefix(what, f.want) {
					t.Errorf("found %q, want %q", what, f.want)
				}
			}
		})
	}
}

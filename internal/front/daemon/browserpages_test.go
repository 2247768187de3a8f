//go:build browser

package daemon_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/forkcell/forkcell/internal/api"
)

// shop makes cells as a person has them after some work, and returns the run that waits
// for a decision.
func shop(d *testDaemon) (pending string) {
	d.Helper()
	d.write("cart/cart.go", "package cart\n\n// Total returns the sum of the prices.\nfunc Total(prices []int) int {\n\tsum := 0\n\tfor i := 0; i < len(prices)-1; i++ {\n\t\tsum += prices[i]\n\t}\n\treturn sum\n}\n")
	d.write("cart/cart_test.go", "package cart\n\nimport \"testing\"\n\nfunc TestTotal(t *testing.T) {\n\tif got := Total([]int{1, 2, 3}); got != 6 {\n\t\tt.Errorf(\"got %d\", got)\n\t}\n}\n")
	d.write("README.md", "# Shop\n\nA small shop.\n")
	d.write("docs/notes.txt", "old notes\n")
	d.write("logo.png", picture(color.RGBA{200, 60, 40, 255}))
	d.want(http.StatusCreated, nil, "POST", "/v1/cells", api.CreateCell{Name: "shop", Source: &api.Source{Path: d.source}, CellSettings: api.CellSettings{Labels: map[string]string{"team": "checkout"}}})
	d.want(http.StatusOK, nil, "PUT", "/v1/cells/shop/policy", map[string]string{"policy": "dev"})
	first := d.ran("shop", "echo 'Run the tests with go test ./...' >> README.md")
	d.want(http.StatusOK, nil, "POST", "/v1/cells/shop/accept", api.AcceptRequest{Run: first, Reason: "helps newcomers"})
	bad := d.ran("shop", "rm -r cart; echo oops >&2; exit 3")
	d.want(http.StatusOK, nil, "POST", "/v1/cells/shop/reject", api.RejectRequest{Run: bad, Reason: "deleted the cart"})
	d.ran("shop", "echo cache > .cache")
	d.want(http.StatusOK, nil, "POST", "/v1/cells/shop/restore", api.RestoreRequest{})
	logo := base64.StdEncoding.EncodeToString([]byte(picture(color.RGBA{15, 118, 110, 255})))
	pending = d.ran("shop", `sed -i 's/len(prices)-1/len(prices)/' cart/cart.go
printf 'package cart\n\n// Count returns the number of articles.\nfunc Count(prices []int) int { return len(prices) }\n' > cart/count.go
mv docs/notes.txt docs/ideas.txt; chmod 755 cart/cart_test.go
mkdir -p .vscode; echo '{"tasks": []}' > .vscode/tasks.json
echo `+logo+` | base64 -d > logo.png
printf '=== RUN   TestTotal\n\033[32m--- PASS\033[0m: TestTotal (0.00s)\n\033[1mok\033[0m   shop/cart  0.002s\n'
curl -sS --max-time 2 https://telemetry.example.com/v1/ping || true`)
	d.want(http.StatusCreated, nil, "POST", "/v1/cells", api.CreateCell{Name: "docs-site", Source: &api.Source{Empty: true}})
	d.ran("docs-site", "mkdir guide; echo '# Guide' > guide/index.md")
	var race api.RaceResult
	d.want(http.StatusOK, &race, "POST", "/v1/race", api.RaceBody{
		Cell: "docs-site", Keep: true, Best: "score", Judge: []string{"sh", "-c", "wc -l < guide/index.md"},
		Attempts: []api.RaceAttemptBody{
			{Command: []string{"sh", "-c", "echo 'Install it.' >> guide/index.md"}}, {Command: []string{"sh", "-c", "printf 'Install it.\nThen run it.\n' >> guide/index.md"}}, {Command: []string{"false"}},
		},
	})
	d.want(http.StatusCreated, nil, "POST", "/v1/tokens", api.TokenBody{Name: "alice", Scopes: []string{"run", "decide"}, Cells: "shop"})
	return pending
}

// picture returns a PNG of one colour with a stripe.
func picture(c color.RGBA) string {
	m := image.NewRGBA(image.Rect(0, 0, 160, 90))
	for y := range 90 {
		for x := range 160 {
			m.Set(x, y, c)
			if (x+y)%40 < 12 {
				m.Set(x, y, color.RGBA{255, 255, 255, 255})
			}
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		panic(err)
	}
	return b.String()
}

// pagesOf are the addresses of all pages, by name.
func pagesOf(run string) [][2]string {
	return [][2]string{
		{"cells", "/ui/"},
		{"cell", "/ui/cells/shop"},
		{"run", "/ui/runs/" + run},
		{"run-split", "/ui/runs/" + run + "?view=split"},
		{"file", "/ui/runs/" + run + "/file?path=cart%2Fcart.go"},
		{"output", "/ui/runs/" + run + "/output"},
		{"run-policy", "/ui/runs/" + run + "/policy"},
		{"receipt", "/ui/runs/" + run + "/receipt?verify=yes"},
		{"suggest", "/ui/runs/" + run + "/suggest"},
		{"files", "/ui/cells/shop/files"},
		{"file-view", "/ui/cells/shop/files?path=cart%2Fcart.go&view=file"},
		{"history", "/ui/cells/shop/history?path=README.md"},
		{"cell-policy", "/ui/cells/shop/policy"},
		{"apply", "/ui/cells/shop/apply"},
		{"session", "/ui/cells/helper/session"},
		{"events", "/ui/events"},
		{"compare", "/ui/compare?cell=docs-site"},
		{"compare-states", "/ui/compare?cell=shop&from=base"},
		{"receipts", "/ui/receipts"},
		{"policy", "/ui/policy?cell=shop&host=example.com:443"},
		{"doctor", "/ui/doctor"},
		{"tokens", "/ui/tokens"},
	}
}

// outOfSight lists what is beside the window: a document that is wider than it, and
// controls. Lists of changed lines, output and the graph scroll by themselves.
const outOfSight = `(() => {
  const bad = new Set(), width = document.documentElement.clientWidth;
  const named = (e) => e.tagName + "." + (e.getAttribute("class") || "") + " " + e.textContent.trim().slice(0, 30);
  const outside = (e) => { const r = e.getBoundingClientRect(); return r.width > 0 && (r.left < -1 || r.right > width + 1); };
  if (document.documentElement.scrollWidth > width) {
    bad.add("the page is " + document.documentElement.scrollWidth + " wide");
    for (const e of document.querySelectorAll("main *, header *")) if (outside(e) && !e.closest(".scroll, .graph, .term, nav")) bad.add("wide: " + named(e));
  }
  for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")) {
    if (e.checkVisibility() && outside(e) && !e.closest(".graph, .term, table.diff, .skip")) bad.add("outside: " + named(e));
  }
  return [...bad].slice(0, 10);
})()`

// TestBrowserPages: every page loads without an error on the console, has names for
// everything, readable colours, a focus that can be seen, and fits a narrow window, light and dark.
func TestBrowserPages(t *testing.T) {
	d := newDaemon(t)
	run := shop(d)
	agentSession(d, "helper")
	b := newTab(t, newBrowser(t), d)
	for _, p := range pagesOf(run) {
		name, at := p[0], p[1]
		for _, scheme := range []string{"light", "dark"} {
			b.looks(scheme, 1280)
			b.open(at)
			if bad := b.sound(); len(bad) > 0 {
				t.Errorf("%s, %s:\n%s", name, scheme, strings.Join(bad, "\n"))
			}
			b.picture(name+"-"+scheme, false)
		}
		for _, width := range []int64{320, 390} {
			b.looks("light", width)
			b.open(at)
			if bad := b.texts(outOfSight); len(bad) > 0 {
				t.Errorf("%s in a window of %d:\n%s", name, width, strings.Join(bad, "\n"))
			}
		}
		b.looks("light", 320)
		b.open(at)
		b.picture(name+"-narrow", true)
		b.quiet(name)
	}
	b.open("/ui/events?action=denied")
	b.waits("would need")
	b.goes(chromedp.Click(chromedp.CSS(`a[href$="/suggest"]`)))
	b.waits("The smallest policy that allows what was denied")
}

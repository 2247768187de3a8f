package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// reviewer is a person with a browser: it keeps cookies, and follows links and forms.
type reviewer struct {
	*testDaemon
	browser *http.Client
	base    string // such as http://NAME:PORT
	page    string // the last page
	status  int
	header  http.Header
}

// newReviewer signs a browser in by a code of the local socket.
func newReviewer(d *testDaemon) *reviewer {
	d.Helper()
	link := signInLink(d)
	at, err := url.Parse(link)
	if err != nil {
		d.Fatal(err)
	}
	r := emptyReviewer(d, "http://"+at.Host)
	r.get(http.StatusOK, at.RequestURI())
	return r
}

func emptyReviewer(d *testDaemon, base string) *reviewer {
	d.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		d.Fatal(err)
	}
	r := &reviewer{testDaemon: d, base: base, browser: &http.Client{Jar: jar, Transport: &http.Transport{DialContext: dialLocalhost}}}
	d.Cleanup(r.browser.CloseIdleConnections)
	return r
}

// dialLocalhost finds every name below localhost on this host, as browsers do.
func dialLocalhost(ctx context.Context, network, address string) (net.Conn, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && strings.HasSuffix(host, ".localhost") {
		address = "127.0.0.1:" + port
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

func signInLink(d *testDaemon) string {
	d.Helper()
	var answer struct {
		URL string `json:"url"`
	}
	d.want(http.StatusCreated, &answer, "POST", "/ui/code", nil)
	return answer.URL
}

// do sends a request of the browser and reads the page.
func (r *reviewer) do(status int, method, at string, form url.Values, header ...string) string {
	r.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(r.Context(), method, r.base+at, body)
	if err != nil {
		r.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", r.base)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := r.browser.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	r.page, r.status, r.header = string(text), resp.StatusCode, resp.Header
	if resp.StatusCode != status {
		r.Fatalf("%s %s: status %d, want %d:\n%s", method, at, resp.StatusCode, status, r.page)
	}
	return r.page
}

func (r *reviewer) get(status int, at string) string {
	r.Helper()
	return r.do(status, "GET", at, nil)
}

var formSecret = regexp.MustCompile(`name="form" value="([^"]+)"`)

// send sends a form with the secrets of the last page.
func (r *reviewer) send(status int, at string, pairs ...string) string {
	r.Helper()
	form := url.Values{"form": {r.field(formSecret)}, "revision": {r.field(regexp.MustCompile(`name="revision" value="(\d+)"`))}}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return r.do(status, "POST", at, form)
}

func (r *reviewer) field(pattern *regexp.Regexp) string {
	r.Helper()
	m := pattern.FindStringSubmatch(r.page)
	if m == nil {
		return ""
	}
	return html.UnescapeString(m[1])
}

func (r *reviewer) has(texts ...string) {
	r.Helper()
	for _, text := range texts {
		if !strings.Contains(r.page, text) {
			r.Errorf("the page does not have %q:\n%s", text, r.page)
		}
	}
}

func (r *reviewer) lacks(texts ...string) {
	r.Helper()
	for _, text := range texts {
		if strings.Contains(r.page, text) {
			r.Errorf("the page has %q:\n%s", text, r.page)
		}
	}
}

// ran runs a shell command in a cell, and returns the id of the run.
func (d *testDaemon) ran(cell, script string) string {
	d.Helper()
	var res api.RunAnswer
	d.want(http.StatusOK, &res, "POST", "/v1/cells/"+cell+"/runs", api.RunBody{Command: []string{"sh", "-c", script}})
	return res.RunID
}

// TestSiteSignIn: a link works once, and only for the browser that used it.
func TestSiteSignIn(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	link := signInLink(d)
	at, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^forkcell-[a-z2-7]{16}\.localhost$`).MatchString(at.Hostname()) {
		t.Errorf("the name of the pages is %s", at.Hostname())
	}
	r := emptyReviewer(d, "http://"+at.Host)
	r.get(http.StatusUnauthorized, "/ui/")
	r.get(http.StatusOK, at.RequestURI())
	cookie := r.header.Get("Set-Cookie")
	for _, want := range []string{"Path=/ui", "Max-Age=43200", "HttpOnly", "SameSite=Strict"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %q lacks %s", cookie, want)
		}
	}
	r.get(http.StatusOK, "/ui/")
	r.has("No cells yet")
	other := emptyReviewer(d, r.base)
	other.get(http.StatusUnauthorized, at.RequestURI())
	other.has("used already")
	other.get(http.StatusUnauthorized, "/ui/cells/x")

	// The cookie is no key to the API, not even where the browser would send it.
	session, _, _ := strings.Cut(cookie, ";")
	for _, path := range []string{"/v1/cells", "/openapi.json", "/v1/tokens", "/metrics"} {
		other.do(http.StatusUnauthorized, "GET", path, nil, "Cookie", session)
	}
	other.do(http.StatusOK, "GET", "/ui/", nil, "Cookie", session)

	r.get(http.StatusOK, "/ui/")
	r.send(http.StatusOK, "/ui/sign-out")
	r.get(http.StatusUnauthorized, "/ui/")
	other.do(http.StatusUnauthorized, "GET", "/ui/", nil, "Cookie", session)
}

// TestSiteHeaders: every answer forbids what a page does not need, also an error.
func TestSiteHeaders(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	r := newReviewer(d)
	for _, at := range []string{"/ui/", "/ui/nothing", "/ui/cells/none", "/ui/sign-in"} {
		r.do(map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[at == "/ui/" || at == "/ui/sign-in"], "GET", at, nil)
		policy := r.header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", at, policy)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store", "X-Frame-Options": "DENY"} {
			if got := r.header.Get(name); got != want {
				t.Errorf("%s: %s is %q", at, name, got)
			}
		}
		if regexp.MustCompile(`(?i)<script[^>]*>[^<]|\son[a-z]+=|style=|<style`).MatchString(r.page) {
			t.Errorf("%s has script or style inside", at)
		}
	}
}

// TestSiteForms: a form that another site made, or another session, does nothing.
func TestSiteForms(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "echo x > new")
	r, other := newReviewer(d), newReviewer(d)
	decide := "/ui/runs/" + run + "/decide"
	other.get(http.StatusOK, "/ui/runs/"+run)
	foreign := other.field(formSecret)
	r.get(http.StatusOK, "/ui/runs/"+run)
	own, revision := r.field(formSecret), r.field(regexp.MustCompile(`name="revision" value="(\d+)"`))
	form := url.Values{"form": {own}, "revision": {revision}, "do": {"accept"}}
	r.do(http.StatusForbidden, "POST", decide, form, "Origin", "http://evil.example")
	r.do(http.StatusForbidden, "POST", decide, form, "Origin", "null")
	for _, secret := range []string{"", "x", foreign} {
		r.do(http.StatusForbidden, "POST", decide, url.Values{"form": {secret}, "revision": {revision}, "do": {"accept"}})
	}
	r.do(http.StatusBadRequest, "POST", decide, url.Values{"form": {own}, "do": {"accept"}})
	r.do(http.StatusBadRequest, "POST", decide, url.Values{"form": {own}, "revision": {revision}, "do": {"burn"}})
	var info api.RunInfo
	d.want(http.StatusOK, &info, "GET", "/v1/runs/"+run, nil)
	if info.Decision != "pending" {
		t.Fatalf("a refused form has decided: %s", info.Decision)
	}
	r.do(http.StatusOK, "POST", decide, form)
	r.has("The run is accepted.")
}

// TestSiteStory: from the first look to accept, apply and undo.
func TestSiteStory(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "echo hello reviewer > hello.txt; mkdir -p .vscode; echo {} > .vscode/tasks.json; echo junk > junk; printf '\\033[31mred\\033[0m\\n'")
	r := newReviewer(d)
	r.get(http.StatusOK, "/ui/")
	r.has("demo", "pending")
	r.get(http.StatusOK, "/ui/cells/demo")
	r.has("head", run)
	r.get(http.StatusOK, "/ui/runs/"+run)
	r.has("What ran", "From which state", "Under which policy", "Reaching what", "Changing what", "hello.txt", `<span class="word">`, "control file", `<span class="t-red">red</span>`)
	r.send(http.StatusOK, "/ui/runs/"+run+"/decide", "do", "accept", "reason", "looks <b>good</b>",
		"listed", "junk", "listed", "hello.txt", "path", "hello.txt", "listed", ".vscode%2Ftasks.json", "path", ".vscode%2Ftasks.json")
	r.has("A part of the run is accepted.", "looks &lt;b&gt;good&lt;/b&gt;")

	r.get(http.StatusOK, "/ui/cells/demo/apply")
	r.has("Held back", ".vscode/tasks.json")
	r.get(http.StatusOK, "/ui/cells/demo/apply?allow=.vscode")
	r.has("hello.txt")
	r.lacks("junk")
	r.send(http.StatusOK, "/ui/cells/demo/apply", "allow", ".vscode")
	r.has("written to the source directory", "Everything is applied.")
	if text, err := os.ReadFile(filepath.Join(d.source, "hello.txt")); err != nil || string(text) != "hello reviewer\n" {
		t.Fatalf("hello.txt: %q %v", text, err)
	}
	r.get(http.StatusOK, "/ui/cells/demo/apply?undo=yes")
	r.has("hello.txt")
	r.send(http.StatusOK, "/ui/cells/demo/undo")
	if text, err := os.ReadFile(filepath.Join(d.source, "hello.txt")); err != nil || string(text) != "hello\n" {
		t.Fatalf("hello.txt after undo: %q %v", text, err)
	}
	r.get(http.StatusOK, "/ui/runs/"+run)
	r.has(`href="/ui/runs/` + run + `/receipt">Verify</a>`)
	r.get(http.StatusOK, "/ui/runs/"+run+"/receipt")
	r.has("The signature holds.", "Verify everything")
	r.get(http.StatusOK, "/ui/runs/"+run+"/receipt?verify=yes")
	r.has("verified", "workspace root")
	r.get(http.StatusOK, "/ui/runs/"+run+"/bundle")
	if !json.Valid([]byte(r.page)) || !strings.HasPrefix(r.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("the bundle is %s", r.header)
	}
}

// TestSiteLater: the page of a run names the later work that a decision against it takes back.
func TestSiteLater(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	first, second := d.ran("demo", "echo 1 > one"), d.ran("demo", "echo 2 > two")
	r := newReviewer(d)
	r.get(http.StatusOK, "/ui/runs/"+second)
	r.lacks(`id="later"`)
	r.get(http.StatusOK, "/ui/runs/"+first)
	r.has("Reject and Restore also take back 1 later undecided run:", `href="/ui/runs/`+second+`"`)
	r.send(http.StatusOK, "/ui/runs/"+first+"/decide", "do", "reject")
	r.lacks(`id="later"`)
	var status api.StatusResult
	d.want(http.StatusOK, &status, "GET", "/v1/cells/demo", nil)
	if len(status.PendingRuns) > 0 {
		t.Errorf("%v wait", status.PendingRuns)
	}
}

// TestSiteControlFiles: the pages mark what an apply holds back, also what only the settings
// of the source directory make a control file.
func TestSiteControlFiles(t *testing.T) {
	t.Parallel()
	const badge = "</span> control file</span>"
	d := newDaemon(t)
	for _, dir := range []string{".git/objects", ".git/refs/heads"} {
		if err := os.MkdirAll(filepath.Join(d.source, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.write(".git/HEAD", "ref: refs/heads/main\n")
	d.write(".git/config", "[core]\n\thooksPath = tools/hooks\n")
	d.write("tools/hooks/pre-commit", "true\n")
	d.cell("demo")
	r := newReviewer(d)
	r.get(http.StatusOK, "/ui/runs/"+d.ran("demo", "echo x > tools/plain"))
	r.has("tools/plain")
	r.lacks(badge)
	run := d.ran("demo", "echo false > tools/hooks/pre-commit")
	r.get(http.StatusOK, "/ui/runs/"+run)
	r.has("tools/hooks/pre-commit", badge)
	r.get(http.StatusOK, "/ui/runs/"+run+"/file?path=tools/hooks/pre-commit")
	r.has(badge)
	moved := d.ran("demo", "mv tools/hooks/pre-commit tools/other")
	r.get(http.StatusOK, "/ui/runs/"+moved)
	r.has("tools/other", badge)
	d.want(http.StatusOK, nil, "POST", "/v1/cells/demo/accept", nil)
	r.get(http.StatusOK, "/ui/cells/demo/apply")
	r.has("Held back", "tools/hooks/pre-commit")

	if err := os.RemoveAll(d.source); err != nil {
		t.Fatal(err)
	}
	r.get(http.StatusOK, "/ui/runs/"+run)
	r.has(badge)
}

// TestSiteMoved: two reviewers look at one state, and the second is told that it has
// moved.
func TestSiteMoved(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "echo x > new")
	first, second := newReviewer(d), newReviewer(d)
	first.get(http.StatusOK, "/ui/runs/"+run)
	second.get(http.StatusOK, "/ui/runs/"+run)
	first.send(http.StatusOK, "/ui/runs/"+run+"/decide", "do", "reject", "reason", "no")
	second.send(http.StatusPreconditionFailed, "/ui/runs/"+run+"/decide", "do", "accept", "back", "/ui/runs/"+run)
	second.has("The state has moved", `href="/ui/runs/`+run+`"`)
	second.get(http.StatusOK, "/ui/runs/"+run)
	second.has("rejected")
}

// TestSiteScopes: what a token may not do has no button, and is refused.
func TestSiteScopes(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("mine")
	d.cell("other")
	run, hidden := d.ran("mine", "echo x > new"), d.ran("other", "echo y > new")
	d.want(http.StatusCreated, nil, "POST", "/v1/cells/mine/fork", api.ForkBody{Name: "secret"})
	d.want(http.StatusOK, nil, "POST", "/v1/cells/secret/accept", api.AcceptRequest{Run: run, Reason: "a private reason"})
	var made api.TokenCreated
	d.want(http.StatusCreated, &made, "POST", "/v1/tokens", api.TokenBody{Name: "viewer", Scopes: []string{"read"}, Cells: "mine"})
	base := newReviewer(d).base
	r := emptyReviewer(d, base)
	r.do(http.StatusUnauthorized, "POST", "/ui/sign-in", url.Values{"token": {"fct_wrong"}})
	r.do(http.StatusOK, "POST", "/ui/sign-in", url.Values{"token": {made.Token}, "next": {"https://evil.example/"}})
	r.has(`url=/ui/"`)
	r.get(http.StatusOK, "/ui/")
	r.has("mine")
	r.lacks("other", "Tokens", "Doctor")
	r.get(http.StatusOK, "/ui/runs/"+run)
	r.lacks(`id="decide"`, "Accept", "secret", "a private reason")
	r.send(http.StatusForbidden, "/ui/runs/"+run+"/decide", "do", "accept", "revision", "1")
	for _, at := range []string{
		"/ui/cells/other", "/ui/cells/other/files", "/ui/runs/" + hidden, "/ui/runs/" + hidden + "/output", "/ui/runs/" + hidden + "/bundle", "/ui/events?run=" + hidden,
		"/ui/events?cell=other", "/ui/compare?cell=other", "/ui/policy?cell=other&path=/", "/ui/receipts?cell=other", "/ui/live?cell=other", "/ui/cells/other/history?path=new",
	} {
		r.get(http.StatusNotFound, at)
		r.lacks("echo y")
	}
	for _, at := range []string{"/ui/tokens", "/ui/doctor", "/ui/cells/mine/apply"} {
		r.get(http.StatusForbidden, at)
	}
	r.get(http.StatusOK, "/ui/events")
	r.lacks(hidden)
	r.get(http.StatusOK, "/ui/receipts")
	r.lacks("other")
	d.want(http.StatusNoContent, nil, "DELETE", "/v1/tokens/viewer", nil)
	r.get(http.StatusUnauthorized, "/ui/")
}

// TestSitePages: every page of a cell can be made.
func TestSitePages(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "echo x > new; rm hello.txt; ln -s /etc/passwd link; mkdir d; chmod 4755 new; true 2>/dev/null > /proc/sysrq-trigger || true")
	d.want(http.StatusCreated, nil, "POST", "/v1/cells/demo/fork", api.ForkBody{Name: "demo-try", N: 3})
	r := newReviewer(d)
	for _, at := range []string{
		"/ui/", "/ui/?q=demo", "/ui/?q=none", "/ui/cells/demo", "/ui/cells/demo/files", "/ui/cells/demo/files?path=new&view=file", "/ui/cells/demo/history?path=new",
		"/ui/cells/demo/policy", "/ui/cells/demo/apply", "/ui/runs/" + run, "/ui/runs/" + run + "?view=split&space=ignore", "/ui/runs/" + run + "/file?path=new", "/ui/runs/" + run + "/output",
		"/ui/runs/" + run + "/policy", "/ui/runs/" + run + "/suggest", "/ui/events", "/ui/events?action=denied&class=file_activity", "/ui/compare", "/ui/compare?cell=demo", "/ui/compare?cell=demo&from=base", "/ui/compare?cell=demo&to=demo-try-1",
		"/ui/receipts", "/ui/policy", "/ui/policy?cell=demo&host=example.com:443", "/ui/policy?cell=demo", "/ui/tokens", "/ui/doctor",
	} {
		r.get(http.StatusOK, at)
		r.lacks("could not be made", "<no value>", "%!")
	}
	r.get(http.StatusOK, "/ui/cells/demo/files/raw?path=new")
	if r.page != "x\n" || r.header.Get("Content-Disposition") != `attachment; filename="new"` || r.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("download: %q %v", r.page, r.header)
	}
	for _, at := range []string{"/ui/events?action=x", "/ui/events?class=x", "/ui/runs/" + run + "?first=-1", "/ui/runs/" + run + "?first=x"} {
		r.get(http.StatusBadRequest, at)
	}
	for _, at := range []string{"/ui/runs/run_x", "/ui/runs/" + run + "/file?path=none", "/ui/runs/" + run + "/image?path=new&side=old", "/ui/cells/demo/files?path=none"} {
		r.get(http.StatusNotFound, at)
	}
}

// TestSiteDirectoryPages: every entry of a large directory is on one of its pages.
func TestSiteDirectoryPages(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	d.ran("demo", "mkdir 'd&x'; cd 'd&x'; for i in $(seq 1000 1449); do echo > f$i; done")
	r := newReviewer(d)
	seen := 0
	for _, n := range []int{200, 200, 50} {
		at := "/ui/cells/demo/files?path=d%26x"
		if seen > 0 {
			at = strings.ReplaceAll(r.field(regexp.MustCompile(`href="([^"]+)" rel="next"`)), "&amp;", "&")
		}
		r.get(http.StatusOK, at)
		r.has(fmt.Sprintf(">f%d</a>", 1000+seen), fmt.Sprintf(">f%d</a>", 1000+seen+n-1), fmt.Sprintf("from entry %d on", seen+1))
		r.lacks(fmt.Sprintf(">f%d</a>", 1000+seen+n))
		seen += n
	}
	r.lacks(`rel="next"`)
	r.get(http.StatusOK, strings.ReplaceAll(r.field(regexp.MustCompile(`href="([^"]+)" rel="prev"`)), "&amp;", "&"))
	r.has(">f1200</a>")
	r.get(http.StatusOK, "/ui/cells/demo/files?path=d%26x&first=4500")
	r.has("no more entries")
}

// TestSitePaging: a run with many changed files shows them page by page.
func TestSitePaging(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "i=0; while [ $i -lt 250 ]; do echo $i > file$i; i=$((i+1)); done")
	r := newReviewer(d)
	seen := map[string]bool{}
	at := "/ui/runs/" + run
	for pages := 0; at != ""; pages++ {
		if pages > 5 {
			t.Fatal("the pages do not end")
		}
		r.get(http.StatusOK, at)
		r.has("250 files")
		for _, m := range regexp.MustCompile(`name="listed" value="(file\d+)"`).FindAllStringSubmatch(r.page, -1) {
			if seen[m[1]] {
				t.Errorf("%s is on two pages", m[1])
			}
			seen[m[1]] = true
		}
		at = r.field(regexp.MustCompile(`href="([^"]+)" rel="next"`))
	}
	if len(seen) != 250 {
		t.Errorf("the pages have %s files", strconv.Itoa(len(seen)))
	}
}

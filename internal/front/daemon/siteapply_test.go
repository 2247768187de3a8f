package daemon_test

import (
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// accepted makes a cell with an accepted run.
func accepted(d *testDaemon, script string) {
	d.Helper()
	d.cell("demo")
	d.want(http.StatusOK, nil, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sh", "-c", script}, AcceptOnSuccess: true})
}

var (
	postForm    = regexp.MustCompile(`(?s)<form method="post" action="(/ui/cells/demo/(?:apply|undo))">(.*?)</form>`)
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
)

// submit sends the form of the preview as it is.
func (r *reviewer) submit(status int) {
	r.Helper()
	form := postForm.FindStringSubmatch(r.page)
	if form == nil {
		r.Fatalf("the page has no form to send:\n%s", r.page)
	}
	values := url.Values{}
	for _, field := range hiddenField.FindAllStringSubmatch(form[2], -1) {
		values.Add(field[1], html.UnescapeString(field[2]))
	}
	r.do(status, "POST", form[1], values)
}

func (r *reviewer) wantFile(name, want string) {
	r.Helper()
	if text, err := os.ReadFile(filepath.Join(r.source, name)); err != nil || string(text) != want {
		r.Errorf("%s is %q, want %q: %v", name, text, want, err)
	}
}

const preview = "/ui/cells/demo/apply"

// TestSiteApplyConflict: a choice is about the conflicts that the page showed.
func TestSiteApplyConflict(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.write("later.txt", "old\n")
	accepted(d, "echo cell > hello.txt; echo cell > later.txt")
	d.write("hello.txt", "host\n")
	r := newReviewer(d)
	r.get(http.StatusOK, preview)
	r.has("hello.txt", `name="on_conflict"`)
	r.lacks(`id="apply"`, "all of them, or none")
	r.get(http.StatusOK, preview+"?on_conflict=theirs")
	r.has(`id="apply"`)
	d.write("later.txt", "host\n") // after the preview
	r.submit(http.StatusConflict)
	r.has("later.txt", `href="`+preview+`"`)
	r.wantFile("hello.txt", "host\n")
	r.wantFile("later.txt", "host\n")
	r.get(http.StatusOK, preview+"?on_conflict=theirs&leave=later.txt")
	r.submit(http.StatusOK)
	r.wantFile("hello.txt", "cell\n")
	r.wantFile("later.txt", "host\n")
}

// TestSiteUndoConflict: an undo with a conflict can be decided.
func TestSiteUndoConflict(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	accepted(d, "echo cell > hello.txt; echo cell > new.txt")
	d.want(http.StatusOK, nil, "POST", "/v1/cells/demo/apply", api.ApplyRequest{})
	d.write("hello.txt", "host\n")
	r := newReviewer(d)
	r.get(http.StatusOK, preview+"?undo=yes")
	r.has("hello.txt", `name="on_conflict"`)
	r.lacks(`<form method="get" hidden`, `id="apply"`)
	r.get(http.StatusOK, preview+"?undo=yes&on_conflict=theirs")
	d.write("new.txt", "host\n")
	r.submit(http.StatusConflict)
	r.has("new.txt")
	r.wantFile("hello.txt", "host\n")
	r.get(http.StatusOK, preview+"?undo=yes&on_conflict=theirs&leave=new.txt")
	r.submit(http.StatusOK)
	r.wantFile("hello.txt", "hello\n")
	r.wantFile("new.txt", "host\n")
}

// TestSiteUndoOffered: an undo is offered where something was applied.
func TestSiteUndoOffered(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	accepted(d, "echo cell > new.txt")
	r := newReviewer(d)
	var cell api.StatusResult
	d.want(http.StatusOK, &cell, "GET", "/v1/cells/demo", nil)
	pages := []string{"/ui/cells/demo", "/ui/runs/" + cell.LastRun}
	look := func(check func(...string)) {
		for _, at := range pages {
			r.get(http.StatusOK, at)
			check(preview + "?undo=yes")
		}
	}
	look(r.lacks)
	d.want(http.StatusOK, nil, "POST", "/v1/cells/demo/apply", api.ApplyRequest{})
	look(r.has)
	d.want(http.StatusOK, nil, "POST", "/v1/cells/demo/undo", api.UndoRequest{})
	look(r.lacks)
}

// TestSiteApplyHeldBack: every file that is held back can be allowed, or left out.
func TestSiteApplyHeldBack(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	names := []string{"a: b/.envrc", "tab\there/.envrc", `quo"te/.envrc`, "line\nend/.envrc", "\xff/.envrc"}
	accepted(d, `for n in "a: b" "$(printf 'tab\there')" 'quo"te' "$(printf 'line\nend')" "$(printf '\377')"; do mkdir -p "$n"; echo x > "$n/.envrc"; done; mkdir -p plain; echo x > plain/.envrc; echo x > tool; chmod 4755 tool`)
	r := newReviewer(d)
	r.get(http.StatusOK, preview)
	r.has("Held back", "New rights", "tool", `name="setuid"`)
	r.lacks(`id="apply"`)
	values := regexp.MustCompile(`name="allow" value="([^"]*)"`).FindAllStringSubmatch(r.page, -1)
	if len(values) != len(names)+1 {
		t.Fatalf("%d files can be allowed, want %d:\n%s", len(values), len(names)+1, r.page)
	}
	answers := url.Values{"setuid": {"yes"}, "leave": {"plain%2F.envrc"}}
	for _, v := range values {
		if v[1] != "plain%2F.envrc" {
			answers.Add("allow", html.UnescapeString(v[1]))
		}
	}
	r.get(http.StatusOK, preview+"?"+answers.Encode())
	r.submit(http.StatusOK)
	for _, name := range names {
		r.wantFile(name, "x\n")
	}
	if _, err := os.Stat(filepath.Join(d.source, "plain/.envrc")); err == nil {
		t.Error("a file that was left out is written")
	}
	if info, err := os.Stat(filepath.Join(d.source, "tool")); err != nil || info.Mode()&os.ModeSetuid == 0 {
		t.Errorf("the set-id file: %v %v", info, err)
	}
}

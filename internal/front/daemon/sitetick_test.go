package daemon_test

import (
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

var (
	listedFile = regexp.MustCompile(`name="listed" value="([^"]*)"`)
	tickedFile = regexp.MustCompile(`name="path" value="([^"]*)" checked`)
)

// values returns what a pattern finds in the last page.
func (r *reviewer) values(pattern *regexp.Regexp) []string {
	var all []string
	for _, m := range pattern.FindAllStringSubmatch(r.page, -1) {
		all = append(all, html.UnescapeString(m[1]))
	}
	return all
}

// acceptWithout accepts the run of the last page with some of its files unticked.
func (r *reviewer) acceptWithout(run string, unticked ...string) {
	r.Helper()
	form := []string{"do", "accept"}
	for _, v := range r.values(listedFile) {
		form = append(form, "listed", v)
	}
	for _, v := range r.values(tickedFile) {
		path, _, _ := strings.Cut(v, "&")
		name, err := url.QueryUnescape(path)
		if err != nil {
			r.Fatal(err)
		}
		if at := slices.Index(unticked, name); at >= 0 {
			unticked = slices.Delete(unticked, at, at+1)
			continue
		}
		form = append(form, "path", v)
	}
	if len(unticked) > 0 {
		r.Fatalf("the page has no tick for %q:\n%s", unticked, r.page)
	}
	r.send(http.StatusOK, "/ui/runs/"+run+"/decide", form...)
	r.has("A part of the run is accepted.")
}

// TestSiteTicks: exactly the files whose ticks were taken away are left out.
func TestSiteTicks(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	r := newReviewer(d)
	for _, c := range []struct {
		script   string
		unticked []string
		check    string // a command that succeeds in the accepted state
	}{
		{"mv hello.txt renamed.txt; echo a > a", []string{"renamed.txt"}, "test -e hello.txt -a -e a -a ! -e renamed.txt"},
		{"mkdir d; echo f > d/f; echo g > d/g", []string{"d/g"}, "test -e d/f -a ! -e d/g"},
		{"chmod 700 d; echo f2 > d/f", []string{"d"}, `test "$(stat -c %a d)" = 755 && grep f2 d/f`},
		{"chmod 700 .; echo b > b", []string{"."}, `test "$(stat -c %a .)" != 700 -a -e b`},
		{"echo x > \"$(printf 'line\\nend')\"; echo '*' > '*'; echo c > c", []string{"line\nend", "*"}, `test "$(ls | wc -l)" = 5 -a -e c`},
	} {
		run := d.ran("demo", c.script)
		r.get(http.StatusOK, "/ui/runs/"+run)
		r.acceptWithout(run, c.unticked...)
		var res api.RunAnswer
		d.want(http.StatusOK, &res, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sh", "-c", c.check}})
		if res.ExitCode != 0 {
			t.Errorf("%s without %q: %s fails", c.script, c.unticked, c.check)
		}
	}
	d.want(http.StatusOK, nil, "POST", "/v1/cells/demo/apply", api.ApplyRequest{})
	if _, err := os.Stat(filepath.Join(d.source, "hello.txt")); err != nil {
		t.Error("a renamed file that was not ticked is gone from the source directory:", err)
	}
}

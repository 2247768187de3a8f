package full_test

import (
	"net/http"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestSiteAttempts: the attempts of a race, and other forks, show how many lines they
// added and removed.
func TestSiteAttempts(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.write("list", "1\n2\n3\n")
	d.cell("demo")
	d.want(http.StatusOK, nil, "POST", "/v1/race", api.RaceBody{
		Cell: "demo", Keep: true,
		Attempts: []api.RaceAttemptBody{
			{Command: []string{"sh", "-c", "seq 2 6 > list; seq 40 > more"}},
			{Command: []string{"sh", "-c", "rm list"}},
			{Command: []string{"sh", "-c", "seq 1001 | split -l 1 -a 4 -"}},
			{Command: []string{"false"}},
		},
	})
	d.want(http.StatusCreated, nil, "POST", "/v1/cells/demo/fork", api.ForkBody{Name: "other"})
	d.ran("other", "seq 5 > five")
	r := newReviewer(d)
	r.get(http.StatusOK, "/ui/compare?cell=demo")
	stat := func(files, added, removed string) string {
		return files + `, <span class="plus">+` + added + `</span> <span class="minus">−` + removed + `</span></td>`
	}
	r.has(stat("2 files", "43", "1"), stat("1 file", "0", "3"), stat("1 file", "5", "0"), "1001 files</td>", "0 files</td>")
}

//go:build failpoints

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/local"
)

// TestInitOverTCPKilled kills an init that sends a directory to a daemon. The next verb
// finishes it if the daemon has the cell, and otherwise nothing stays that is in the way.
func TestInitOverTCPKilled(t *testing.T) {
	t.Parallel()
	for point, made := range map[string]bool{"mirror.read": false, "mirror.sent": false, "mirror.created": true} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.made = true
			at, token := tokenDaemon(t, t.TempDir())
			url := "http://" + at
			remote := []string{"FORKCELL_URL=" + url, "FORKCELL_TOKEN_FILE=" + token}
			l.env = append(slices.Clone(remote), "FORKCELL_FAILPOINT="+point)
			if code, out, errs := l.forkcell("init", "demo", "--from", "work"); code == 0 {
				t.Fatalf("it did not die: %s%s", out, errs)
			}
			l.env = remote
			if !made {
				l.must("init", "demo", "--from", "work")
			}
			l.must("run", "--quiet", "demo", "--", "sh", "-c", "echo two > two")
			l.must("accept", "demo", "--apply")
			if _, err := os.Stat(filepath.Join(l.dir, "work", "two")); err != nil {
				t.Error(err)
			}
			l.must("gc")
			names := mirrorsOf(t, local.MirrorHome(filepath.Join(l.dir, "state"), url))
			wanted := 1
			if point == "mirror.sent" {
				wanted = 2 // the daemon could still use the upload
			}
			if len(names) != wanted || !strings.HasPrefix(names[0], "cell_") {
				t.Errorf("mirrors: %v", names)
			}
			var list struct {
				Cells []json.RawMessage `json:"cells"`
			}
			l.ok(json.Unmarshal([]byte(l.must("ls", "--json")), &list))
			if len(list.Cells) != 1 {
				t.Errorf("the daemon has %d cells", len(list.Cells))
			}
		})
	}
}

// mirrorsOf returns the names of the cells in a home.
func mirrorsOf(t *testing.T, home string) (names []string) {
	t.Helper()
	e, release, err := local.Open(home, local.Read, caller.Caller{Actor: func() string { return "tester" }})
	must(t, err)
	defer func() { _ = release() }()
	cells, err := e.List(t.Context())
	must(t, err)
	for _, c := range cells {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names
}

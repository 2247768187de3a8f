package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

func (w *world) rules(extra ...string) {
	w.T.Helper()
	rules, err := secretfiles.New(secretfiles.Options{Extra: extra})
	w.Must(err)
	w.Cell.Rules = rules
}

func (w *world) put(name, text string) {
	w.T.Helper()
	path := filepath.Join(w.Source, name)
	w.Must(os.MkdirAll(filepath.Dir(path), 0o700))
	w.Must(os.WriteFile(path, []byte(text), 0o600))
}

// TestPins: of the directories above a mask, those that a rule names cannot be
// renamed.
func TestPins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files, extra, kept []string
		want               string
	}{
		"a name":            {files: []string{"a/b/.env", "a/.ssh/id"}},
		"the default rules": {files: []string{"a/b/.docker/config.json", ".kube/config"}, want: "/w/.kube /w/a/b/.docker"},
		"a path":            {files: []string{"a/b/c/d"}, extra: []string{"a/b/c/d"}, want: "/w/a /w/a/b /w/a/b/c"},
		"a directory":       {files: []string{"a/b/c/d"}, extra: []string{"/a/b/"}, want: "/w/a"},
		"at the root":       {files: []string{"a"}, extra: []string{"/a"}},
		"any directory":     {files: []string{"x/a/b/c"}, extra: []string{"**/a/**/c"}, want: "/w/x /w/x/a /w/x/a/b"},
		"nested": {
			files: []string{"a/.docker/config.json", "a/b/c"}, extra: []string{"a/b/c"},
			want: "/w/a /w/a/.docker /w/a/b",
		},
		"fewer, then more": {
			files: []string{"a/b/.kube/.docker/config.json", "a/b/.kube/config"}, extra: []string{"a/b/.kube/config"},
			want: "/w/a /w/a/b /w/a/b/.kube /w/a/b/.kube/.docker",
		},
		"taken back elsewhere": {files: []string{"a/b/.env"}, extra: []string{"!docs/.env"}, want: "/w/a /w/a/b"},
		"taken back by name":   {files: []string{"a/b/.env"}, extra: []string{"!x.pem"}},
		"tracked elsewhere":    {files: []string{"a/b/.env"}, kept: []string{"docs/.env"}, want: "/w/a /w/a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, workspace.BackendDelta)
			w.rules(c.extra...)
			for _, f := range c.files {
				w.put(f, "SECRET")
			}
			base, _ := w.Import()
			w.Cell.Kept = c.kept
			work := w.Begin(w.Cell, base.Layer)
			defer work.Close()
			if got := strings.Join(work.Mounts().Pins, " "); got != c.want {
				t.Errorf("pins %q, want %q", got, c.want)
			}
			if masks := work.Mounts().Masks; len(masks) != len(c.files) {
				t.Errorf("masks: %+v", masks)
			}
		})
	}
}

// TestMaskedElsewhere: a masked file is not part of the state under another
// name either. Other files are.
func TestMaskedElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendDelta)
	w.rules()
	for _, name := range []string{".env", ".ssh/id", "gone.pem", "linked.pem", "written.pem", "code"} {
		w.put(name, "SECRET "+name)
	}
	w.Must(os.Link(w.Source+"/linked.pem", w.Source+"/innocent"))
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)
	if paths, err := work.UncoveredPaths(); err != nil || len(paths) > 0 {
		t.Errorf("uncovered: %q, %v", paths, err)
	}
	w.Must(os.Rename(w.Source+"/.env", w.Source+"/moved"))
	w.Must(os.Rename(w.Source+"/.ssh", w.Source+"/keys"))
	w.put(".env", "new")
	// Some file systems give a free inode number to the next file.
	w.Must(os.Remove(w.Source + "/gone.pem"))
	w.put("fresh", "fresh")
	w.put("written.pem", "more")
	paths, err := work.UncoveredPaths()
	if want := []string{".env", "written.pem"}; err != nil || !slices.Equal(paths, want) {
		t.Errorf("uncovered: %q, %v, want %q", paths, err, want)
	}
	capture, err := work.Capture(context.Background(), w.Op())
	w.Must(err)
	captured, err := capture.Seal(context.Background())
	w.Must(err)
	sealed := w.Seal(work)
	for _, s := range []workspace.Sealed{captured, sealed} {
		for name, there := range map[string]bool{"moved": false, "keys": false, ".env": false, "fresh": true, "innocent": true, "code": true} {
			if _, ok, err := w.Tree(s.Layer).Lookup(name); err != nil || ok != there {
				t.Errorf("%s is in the state: %v, %v", name, ok, err)
			}
		}
		if !slices.Contains(s.LeftOut, workspace.LeftOut{Path: "keys", Rule: workspace.HiddenRule}) {
			t.Errorf("left out: %+v", s.LeftOut)
		}
	}
}

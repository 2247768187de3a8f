package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"

	"github.com/forkcell/forkcell/internal/policy"
)

func TestSearchPath(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{"tool/bin", "other/bin"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../other/bin", filepath.Join(root, "tool", "link")); err != nil {
		t.Fatal(err)
	}
	tool := filepath.Join(root, "tool")
	const base = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	listed := policy.Default()
	listed.Filesystem = policy.Filesystem{Given: true, ReadOnly: []string{"/usr/bin"}}
	for name, k := range map[string]struct {
		policy *policy.Policy
		path   string
		root   string
		shown  []string
		want   string
	}{
		"nothing given":             {want: base},
		"of the system, before":     {path: "/usr/lib:/usr/bin", want: "/usr/lib:" + base},
		"of the system, after":      {path: "/usr/bin:/usr/lib", want: base + ":/usr/lib"},
		"not in the cell":           {path: tool + "/bin:/usr/bin", want: base},
		"shown":                     {path: tool + "/bin:/usr/bin", shown: []string{tool}, want: tool + "/bin:" + base + ":" + tool},
		"a link out of it":          {path: tool + "/link", shown: []string{tool}, want: base + ":" + tool + ":" + tool + "/bin"},
		"odd ones":                  {path: ":.:bin:/usr/../usr/lib:/usr/no-such:/usr/bin/env", want: base},
		"a system of another":       {path: "/usr/lib", root: root, want: base},
		"a policy that lists paths": {policy: listed, path: "/usr/lib", want: base},
	} {
		p := k.policy
		if p == nil {
			p = policy.Default()
		}
		e := New(Config{Caller: caller.Caller{Env: []string{"PATH=" + k.path}}})
		req := runRequest{RunRequest: api.RunRequest{RunOptions: api.RunOptions{Root: api.Text(k.root)}}}
		if got := e.searchPath(p, req, k.shown); got != k.want {
			t.Errorf("%s: %s, want %s", name, got, k.want)
		}
	}
}

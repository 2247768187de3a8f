package cell

import (
	"os"
	"path/filepath"
	"testing"

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
		req    RunRequest
		shown  []string
		want   string
	}{
		"nothing given":             {req: RunRequest{}, want: base},
		"of the system, before":     {req: RunRequest{CallerInfo: CallerInfo{SearchPath: "/usr/lib:/usr/bin"}}, want: "/usr/lib:" + base},
		"of the system, after":      {req: RunRequest{CallerInfo: CallerInfo{SearchPath: "/usr/bin:/usr/lib"}}, want: base + ":/usr/lib"},
		"not in the cell":           {req: RunRequest{CallerInfo: CallerInfo{SearchPath: tool + "/bin:/usr/bin"}}, want: base},
		"shown":                     {req: RunRequest{CallerInfo: CallerInfo{SearchPath: tool + "/bin:/usr/bin"}}, shown: []string{tool}, want: tool + "/bin:" + base + ":" + tool},
		"a link out of it":          {req: RunRequest{CallerInfo: CallerInfo{SearchPath: tool + "/link"}}, shown: []string{tool}, want: base + ":" + tool + ":" + tool + "/bin"},
		"odd ones":                  {req: RunRequest{CallerInfo: CallerInfo{SearchPath: ":.:bin:/usr/../usr/lib:/usr/no-such:/usr/bin/env"}}, want: base},
		"a system of another":       {req: RunRequest{CallerInfo: CallerInfo{SearchPath: "/usr/lib"}, Root: root}, want: base},
		"a policy that lists paths": {policy: listed, req: RunRequest{CallerInfo: CallerInfo{SearchPath: "/usr/lib"}}, want: base},
	} {
		p := k.policy
		if p == nil {
			p = policy.Default()
		}
		if got := searchPath(p, k.req, k.shown); got != k.want {
			t.Errorf("%s: %s, want %s", name, got, k.want)
		}
	}
}

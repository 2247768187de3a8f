package mask_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/engine/mask"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

// workspace makes files with their own paths as contents.
func workspace(t testing.TB, paths ...string) secretfiles.Tree {
	t.Helper()
	dir := t.TempDir()
	for _, p := range paths {
		full := filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte("# "+p+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := fsx.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return secretfiles.InDir(root)
}

func find(t *testing.T, opt mask.Options, paths ...string) *mask.Plan {
	t.Helper()
	plan, err := mask.Find(workspace(t, paths...), opt)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func filtered(p *mask.Plan) (paths []string) {
	for _, f := range p.Filtered {
		paths = append(paths, f.Path)
	}
	return paths
}

func repository(dir string) []string {
	return []string{dir + "/HEAD", dir + "/config", dir + "/objects/x", dir + "/refs/x", dir + "/info/exclude"}
}

func TestFind(t *testing.T) {
	t.Parallel()
	paths := append(repository(".git"), ".git/hooks/x", "a/.claude/x", ".mcp.json", ".vscode/mcp.json", ".vscode/tasks.json", ".envrc",
		"AGENTS.md", ".github/copilot-instructions.md", ".github/hooks/x", "main.go", ".npmrc", "own/state", "opencode.json")
	paths = append(paths, repository("store")...)
	p := find(t, mask.Options{State: []string{"own/"}}, paths...)
	want(t, "hidden", p.Hidden, ".git/hooks", ".github/hooks", ".mcp.json", ".vscode/mcp.json", "a/.claude", "opencode.json")
	want(t, "read-only", p.ReadOnly, ".envrc", ".vscode")
	want(t, "filtered", filtered(p), ".git/config", "store/config")
	for _, name := range []string{".claude", ".idea", "mise.toml", ".github/agents", ".git/config.worktree", ".git/info/attributes", "store/hooks"} {
		if !slices.Contains(p.Missing, name) {
			t.Errorf("%s is not masked while it is missing", name)
		}
	}
	for _, name := range []string{".mcp.json", ".config/mise", "a/.codex", ".npmrc"} {
		if slices.Contains(p.Missing, name) {
			t.Errorf("%s counts as missing", name)
		}
	}
}

// TestNamedPrograms: the programs that the workspace's settings name cannot be changed.
func TestNamedPrograms(t *testing.T) {
	t.Parallel()
	tree := workspace(t, ".git/HEAD", ".git/objects/x", ".git/refs/x", "tools/hooks/pre-push", "tools/other", "scripts/check.js")
	for name, text := range map[string]string{".git/config": "[core]\n\thooksPath = tools/hooks\n", ".husky/pre-commit": "node scripts/check.js\n"} {
		p := filepath.Join(tree.Root(), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := mask.Find(tree, mask.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "read-only", p.ReadOnly, "scripts/check.js", "tools/hooks")
}

// TestRepositories: git finds settings in directories of any name, in more layouts
// than the usual one.
func TestRepositories(t *testing.T) {
	t.Parallel()
	tree := workspace(t, "linked/config", "linked/objects/x", "linked/info/attributes", "work/commondir", "work/config.worktree",
		"shared/config", "shared/hooks/x", "shared/refs/x", "shared/sub/hooks/x", "shared/sub/config", "half/config", "half/HEAD", "half/objects/x", "plain/config", "plain/objects/x")
	for from, to := range map[string]string{
		"linked/HEAD": "refs/heads/main", "linked/refs": "../shared/refs", "shared/objects": "../linked/objects", "shared/info": "../linked/info",
		"work/HEAD": "refs/heads/main",
	} {
		if err := os.Symlink(to, filepath.Join(tree.Root(), from)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := mask.Find(tree, mask.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "hidden", p.Hidden, "linked/info/attributes", "shared/hooks", "shared/info")
	want(t, "filtered", filtered(p), "half/config", "linked/config", "shared/config", "work/config.worktree")
	for _, name := range []string{"linked/hooks", "shared/config.worktree", "work/config", "work/hooks"} {
		if !slices.Contains(p.Missing, name) {
			t.Errorf("%s is not masked while it is missing", name)
		}
	}
}

// TestShowGit: settings of agents are hidden also in directories of repositories.
func TestShowGit(t *testing.T) {
	t.Parallel()
	p := find(t, mask.Options{ShowGit: true}, append(repository("tools.git"), "tools.git/.mcp.json", "tools.git/hooks/x", "tools.git/info/attributes")...)
	want(t, "hidden", p.Hidden, "tools.git/.mcp.json")
	want(t, "read-only", p.ReadOnly, "tools.git/config", "tools.git/hooks", "tools.git/info/attributes")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	paths := append(repository(".git"), ".git/hooks/x", ".mcp.json", ".vscode/mcp.json", "special/x")
	p := find(t, mask.Options{ShowGit: true, ShowMCP: true, Also: []string{"/special", "/other"}}, paths...)
	want(t, "hidden", p.Hidden, "special")
	want(t, "read-only", p.ReadOnly, ".git/config", ".git/hooks", ".mcp.json", ".vscode")
	want(t, "filtered", filtered(p))
	if !slices.Contains(p.Missing, "other") {
		t.Errorf("missing: %q", p.Missing)
	}
	if _, err := mask.NewRules(mask.Options{Also: []string{"["}}); err == nil {
		t.Error("a bad pattern is accepted")
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	r, err := mask.NewRules(mask.Options{State: []string{"**/.git/opencode"}})
	if err != nil {
		t.Fatal(err)
	}
	for p, aside := range map[string]bool{".claude/x": true, "a/.MCP.json": true, "main.go": false, ".git/config": true, "AGENTS.md": false, ".npmrc": false, "a/.git": true} {
		if r.IsAside(p, false) != aside {
			t.Errorf("%s: set aside is %v", p, !aside)
		}
	}
	if !r.IsState(".git/opencode", false) || r.IsState(".git/index", false) {
		t.Error("state")
	}
}

func TestTooMany(t *testing.T) {
	t.Parallel()
	var paths []string
	for i := range 10_000 {
		paths = append(paths, fmt.Sprintf("%d/.envrc", i))
	}
	if _, err := mask.Find(workspace(t, paths...), mask.Options{}); !errors.Is(err, mask.ErrTooMany) {
		t.Error(err)
	}
	long, dir := []string{}, strings.Repeat(strings.Repeat("d", 200)+"/", 17)
	for i := range 300 {
		long = append(long, fmt.Sprintf("%s%d/.envrc", dir, i))
	}
	if _, err := mask.Find(workspace(t, long...), mask.Options{}); !errors.Is(err, mask.ErrTooMany) {
		t.Errorf("long paths: %v", err)
	}
}

func TestUnreadableConfig(t *testing.T) {
	t.Parallel()
	tree := workspace(t, repository(".git")...)
	if err := os.WriteFile(filepath.Join(tree.Root(), ".git/config"), []byte("[core\nfsmonitor=x"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := mask.Find(tree, mask.Options{})
	if err != nil || len(p.Filtered) != 1 || !p.Filtered[0].Unreadable || len(p.Filtered[0].Contents) > 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

package secretfiles_test

import (
	"os"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

func TestIsControl(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		".git", "sub/.git", ".git/hooks/pre-commit", ".git/config", ".git/config.worktree", ".GIT/Config", ".g\u200cit/hooks/x",
		".git/modules/x/hooks/post-checkout", ".git/modules/a/b/config", ".git/info/attributes", ".git/rebase-merge/git-rebase-todo",
		"vendor/lib/.git/hooks/x", "evil.git/hooks/post-update", "evil.git/config", ".gitmodules", ".GitModules", "a/.envrc",
		".vscode/tasks.json", ".Vſcode/settings.json", ".idea/workspace.xml", "x/.cursor/mcp.json", ".claude/settings.json", ".mcp.json", ".codex/config.toml",
		".gemini/settings.json", ".aider.conf.yml", ".github/copilot-setup-steps.yml", ".bashrc", "home/.zshrc", ".profile", ".npmrc",
		".yarnrc.yml", ".pre-commit-config.yaml", ".husky/pre-commit", ".devcontainer/devcontainer.json", ".tool-versions", ".mise.toml",
		"my.code-workspace", ".ssh/authorized_keys", ".cargo/config.toml", ".forkcellignore", ".hg/hgrc", ".config/fish/config.fish",
	} {
		if what, yes := secretfiles.IsControl(p); !yes || what == "" {
			t.Errorf("%s is not a control file", p)
		}
	}
	for _, p := range []string{
		"", ".", "main.go", "CLAUDE.md", "AGENTS.md", ".gitignore", ".gitattributes", ".git/HEAD", ".git/index", ".git/objects/ab/01234567890123456789012345678901234567",
		".git/refs/heads/main", ".git/logs/HEAD", "config", "hooks/x", "src/hooks/useX.ts", ".github/workflows/ci.yml", "package.json", "Makefile",
		".editorconfig", ".env", "docs/vscode.md", ".docker/Dockerfile", ".eslintrc.json", ".nvmrc",
	} {
		if what, yes := secretfiles.IsControl(p); yes {
			t.Errorf("%s is a control file: %s", p, what)
		}
	}
	if _, yes := secretfiles.IsControlDir("sub/.git"); yes {
		t.Error("a directory called .git is held back as a whole")
	}
	if _, yes := secretfiles.IsControlDir(".vscode"); !yes {
		t.Error(".vscode is not a control directory")
	}
}

// The list for people and the list for the program are one.
func TestControlFilesAreDocumented(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../docs/reference/control-files.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	_, table, ok := strings.Cut(string(b), "## The list")
	table, _, _ = strings.Cut(table, "\n## ")
	if !ok {
		t.Fatal("docs/reference/control-files.md has no section \"The list\"")
	}
	for i, part := range strings.Split(table, "`") {
		if i%2 == 1 {
			documented[part] = true
		}
	}
	for what, patterns := range secretfiles.ControlFiles() {
		if !strings.Contains(table, "### "+strings.ToUpper(what[:1])+what[1:]+"\n") {
			t.Errorf("docs/reference/control-files.md has no group %q", what)
		}
		for _, p := range patterns {
			if !documented[strings.TrimPrefix(p, "**/")] {
				t.Errorf("docs/reference/control-files.md does not list %s", p)
			}
			delete(documented, strings.TrimPrefix(p, "**/"))
		}
	}
	delete(documented, ".git") // a file of this name; not a pattern
	for p := range documented {
		t.Errorf("docs/reference/control-files.md lists %s, which is none", p)
	}
}

// TestPushedFilesAreDocumented: docs/reference/publish.md lists exactly the files that run
// when they are pushed, and apply writes them.
func TestPushedFilesAreDocumented(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../docs/reference/publish.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(b), "## Files that run when they are pushed")
	table, _, _ = strings.Cut(table, "\n## ")
	if !ok {
		t.Fatal("docs/reference/publish.md has no such section")
	}
	documented := map[string]bool{}
	for row := range strings.Lines(table) {
		if strings.HasPrefix(row, "|") {
			for i, part := range strings.Split(row, "`") {
				if i%2 == 1 {
					documented[part] = true
				}
			}
		}
	}
	for what, patterns := range secretfiles.PushedFiles() {
		if !strings.Contains(table, "\n| "+what+" |") {
			t.Errorf("no row %q", what)
		}
		for _, p := range patterns {
			p = strings.TrimPrefix(p, "**/")
			if !documented[p] {
				t.Errorf("%s is not listed", p)
			}
			delete(documented, p)
			name := strings.ReplaceAll(p, "*", "x")
			if got, is := secretfiles.RunsWhenPushed("sub/"+name, false); !is || got != what {
				t.Errorf("sub/%s is %q, want %q", name, got, what)
			}
			if got, is := secretfiles.IsControl(name); is {
				t.Errorf("apply refuses %s: %s", name, got)
			}
		}
	}
	for p := range documented {
		t.Errorf("%s is listed, and is none", p)
	}
}

func BenchmarkIsControl(b *testing.B) {
	for b.Loop() {
		secretfiles.IsControl("internal/component/some/deep/file_name.go")
	}
}

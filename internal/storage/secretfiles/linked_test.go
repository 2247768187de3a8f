package secretfiles_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

func TestLinked(t *testing.T) {
	t.Parallel()
	links := map[string]string{
		".claude": "conf/claude", ".envrc": "/ws/env/../env/rc", ".mcp.json": "/etc/passwd", ".cursor": "../outside",
		".vscode": "one", "one": "two/", "two": "./editor", "sub/.zed": "../zed", "sub/deep": "../conf",
		".github/copilot-instructions.md": "../AGENTS.md", ".idea": ".idea", "plain": "src", ".gemini/hooks": "../scripts",
		"mid": "far", ".codex": "mid/codex",
	}
	l, err := secretfiles.NewLinked("/ws", slices.Collect(maps.Keys(links)), func(path string) (string, error) { return links[path], nil })
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		".claude/settings.json":     "agent or MCP setting",
		"conf/claude":               "agent or MCP setting, .claude links to it",
		"conf/claude/settings.json": "agent or MCP setting, .claude links to it",
		"conf/claude/a/b":           "agent or MCP setting, .claude links to it",
		"conf/other":                "",
		"conf":                      "agent or MCP setting, .claude links to conf/claude",
		"env/rc":                    "environment loaded on entering the directory, .envrc links to it",
		"etc/passwd":                "",
		"outside":                   "",
		"one":                       "editor setting, .vscode links to it",
		"two":                       "editor setting, .vscode links to it",
		"editor/tasks.json":         "editor setting, .vscode links to it",
		"zed/settings.json":         "editor setting, sub/.zed links to it",
		"AGENTS.md":                 "",
		"src/main.go":               "",
		"scripts/run":               "agent or MCP setting, .gemini/hooks links to it",
		"mid":                       "agent or MCP setting, .codex links to it",
		"far/codex/config.toml":     "agent or MCP setting, .codex links to it",
		"far/other":                 "",
		"one/of/another":            "",
	} {
		if got, is := l.ControlFile(path, false); got != want || is != (want != "") {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got, is := l.ControlFile("conf", true); is {
		t.Errorf("a directory above it: %q", got)
	}
	if got, is := new(secretfiles.LinkFinder).ControlFile("src/a", false); is {
		t.Errorf("without links: %q", got)
	}
}

// TestLinkedRoots: an absolute link leads into the tree only where the tree's place is
// known.
func TestLinkedRoots(t *testing.T) {
	t.Parallel()
	links := map[string]string{".claude": "/", ".vscode": "/editor", ".zed": "/ws"}
	for root, want := range map[string][]string{
		"":    nil,
		"/":   {"conf/a", "editor/a", "ws/a"},
		"/ws": {"conf/a", "editor/a", "ws/a"},
		"/w":  nil,
	} {
		l, err := secretfiles.NewLinked(root, slices.Collect(maps.Keys(links)), func(path string) (string, error) { return links[path], nil })
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, path := range []string{"conf/a", "editor/a", "ws/a"} {
			if _, is := l.ControlFile(path, false); is {
				got = append(got, path)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", root, got, want)
		}
	}
}

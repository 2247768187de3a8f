package injection_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/forkcell/forkcell/internal/policy/injection"
)

// names is a small vocabulary.
func names() injection.Vocabulary {
	return injection.Vocabulary{
		Agents: []string{"claude", "codex", "gemini"},
		Keys: map[string][]string{
			"codex_auth": {"codex"}, "claude_auth": {"claude"}, "claude_api_key": {"claude"}, "github_hosts": {"claude", "codex", "gemini"},
		},
		Restricted: []string{"github_hosts"},
	}
}

// write makes a private file below a directory that only the caller can write.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	full := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return full
}

// private returns a directory that only the caller can write, by its real path.
func private(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

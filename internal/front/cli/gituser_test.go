package cli

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files that are read without git say what git says about them. Those that are
// not plain are left to git.
func TestGitUser(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		plain      bool
	}{
		{"none", "", true},
		{"usual", "[user]\n\tname = Ada Lovelace\n\temail = ada@example.com\n[core]\n\teditor = vi\n", true},
		{"last value", "[user]\nname=a\n# c\n; d\n[x \"y z\"]\nname = b\n[USER]\nNAME = c\n", true},
		{"other section with quotes", "[alias]\n\tx = \"!f() { git log; }; f\" # why\n[user]\n\tname = a\n", true},
		{"empty value", "[user]\nname =\n", true},
		{"subsection", "[user \"work\"]\nname = a\n", true},
		{"quoted", "[user]\nname = \"Ada # L\"\n", false},
		{"comment after a value", "[user]\nname = Ada # L\n", false},
		{"continued", "[core]\nx = a\\\n[user]\nname = b\n", false},
		{"include", "[include]\npath = other\n", false},
		{"include under a condition", "[includeIf \"gitdir:/\"]\npath = other\n", false},
		{"key beside its header", "[user] name = a\n", false},
		{"old subsection", "[user.work]\nname = a\n", false},
		{"no value", "[user]\nname\n", false},
		{"returns", "[user]\r\nname = a\r\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("GIT_CONFIG_GLOBAL", file)
			got, plain := plainGitUser(globalGitFiles())
			if plain != tt.plain {
				t.Fatalf("plain: %v", plain)
			}
			if want := askGitUser(t.Context()); plain && got != want {
				t.Errorf("got %q, git says %q", got, want)
			}
		})
	}
}

// Random files of pieces that matter to git.
func TestGitUserRandom(t *testing.T) {
	pieces := []string{
		"[user]", "[User]", "[user", "]", "[core]", "[user \"x\"]", "name", "email", "=", " = ", "a b", "\n", "\n", "\n", "\t", " ",
		"#", ";", "\"", "\\", "\\\n", "[include]", "é", "x", "[]", ".", "-", "[user]\nname = a\n",
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	file := filepath.Join(t.TempDir(), "config")
	t.Setenv("GIT_CONFIG_GLOBAL", file)
	for range 300 {
		var b strings.Builder
		for range 1 + random.IntN(14) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		got, plain := plainGitUser(globalGitFiles())
		if !plain {
			continue
		}
		if want := askGitUser(t.Context()); got != want && want != (gitUser{}) {
			t.Fatalf("of %q: got %q, git says %q", b.String(), got, want)
		}
	}
}

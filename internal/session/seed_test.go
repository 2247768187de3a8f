package session

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/session/credentials"
)

// TestSeedFollowsNoLinks writes an agent's files into homes that earlier commands have
// prepared: nothing is written outside of the home, and nothing makes the shell wait.
func TestSeedFollowsNoLinks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		prepare func(home, outside string) error
	}{
		{"empty", func(string, string) error { return nil }},
		{"file", func(home, _ string) error {
			return os.WriteFile(home+"/token", []byte("old and longer than it"), 0o644)
		}},
		{"linked file", func(home, outside string) error { return os.Symlink(outside+"/taken", home+"/token") }},
		{"link to a file", func(home, outside string) error {
			return os.Symlink(outside+"/kept", home+"/token")
		}},
		{"fifo", func(home, _ string) error { return unix.Mkfifo(home+"/token", 0o600) }},
		{"linked directory", func(home, outside string) error { return os.Symlink(outside, home+"/.a") }},
		{"linked directory below", func(home, outside string) error {
			if err := os.Mkdir(home+"/.a", 0o700); err != nil {
				return err
			}
			return os.Symlink(outside, home+"/.a/b")
		}},
		{"file for a directory", func(home, _ string) error { return os.WriteFile(home+"/.a", nil, 0o600) }},
		{"fifo for a directory", func(home, _ string) error { return unix.Mkfifo(home+"/.a", 0o600) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := Make(request(t, "generic"))
			if err != nil {
				t.Fatal(err)
			}
			p.grant = &credentials.Grant{Files: []credentials.File{{Path: "token", Text: []byte("it's secret")}, {Path: ".a/b/token", Text: []byte("deep")}}}
			script, err := p.script()
			if err != nil {
				t.Fatal(err)
			}
			home, outside := filepath.Join(t.TempDir(), "home"), t.TempDir()
			if err := os.Mkdir(home, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(outside+"/kept", []byte("kept"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := c.prepare(home, outside); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			sh := exec.CommandContext(ctx, "sh", "-s")
			sh.Stdin = strings.NewReader(strings.ReplaceAll(script, Home, home))
			if out, err := sh.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for file, want := range map[string]string{"token": "it's secret", ".a/b/token": "deep"} {
				info, err := os.Lstat(filepath.Join(home, file))
				if err != nil || info.Mode() != 0o600 {
					t.Errorf("%s: %v, %v", file, info, err)
					continue
				}
				if got, err := os.ReadFile(filepath.Join(home, file)); string(got) != want {
					t.Errorf("%s: %q, %v", file, got, err)
				}
			}
			if list, err := os.ReadDir(outside); err != nil || len(list) != 1 {
				t.Errorf("outside of the home: %v, %v", list, err)
			}
			if got, _ := os.ReadFile(outside + "/kept"); string(got) != "kept" {
				t.Errorf("a file outside of the home became %q", got)
			}
		})
	}
}

// TestAgentIsTold: an agent that reads instructions of its user is told which files are
// masked, after the operator's instructions. What it wrote there itself stays.
func TestAgentIsTold(t *testing.T) {
	t.Parallel()
	const file = ".claude/CLAUDE.md"
	for _, c := range []struct {
		name    string
		change  func(*Facts)
		grant   []credentials.File
		prepare string
		want    []string // what the file has
		not     string
	}{
		{name: "masked", want: []string{"# Masked files", "`.claude/`", "`.mcp.json`"}},
		{name: "instructions", grant: []credentials.File{{Path: file, Text: []byte("Be brief.\n")}}, want: []string{"Be brief.\n\n# Masked files"}},
		{name: "kept", prepare: "mkdir .claude; echo mine > " + file, want: []string{"mine\n"}, not: "Masked"},
		{name: "link", prepare: "mkdir .claude; echo mine > mine; ln -s ../mine " + file, want: []string{"mine\n"}, not: "Masked"},
		{name: "not masked", change: func(q *Facts) { q.Masks = false }, prepare: "mkdir .claude; echo none > " + file, want: []string{"none\n"}, not: "Masked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := request(t, "claude")
			if c.change != nil {
				c.change(&q)
			}
			p, err := Make(q)
			if err != nil {
				t.Fatal(err)
			}
			p.grant = &credentials.Grant{Files: c.grant}
			script, err := p.script()
			if err != nil {
				t.Fatal(err)
			}
			home := t.TempDir()
			sh := exec.CommandContext(t.Context(), "sh", "-s")
			sh.Dir, sh.Stdin = home, strings.NewReader(c.prepare+"\n"+strings.ReplaceAll(script, Home, home))
			if out, err := sh.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			text, err := os.ReadFile(filepath.Join(home, file))
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range c.want {
				if !strings.Contains(string(text), part) {
					t.Errorf("it lacks %q: %s", part, text)
				}
			}
			if c.not != "" && strings.Contains(string(text), c.not) {
				t.Errorf("it has %q: %s", c.not, text)
			}
		})
	}
}

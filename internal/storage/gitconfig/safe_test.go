package gitconfig_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/gitconfig"
)

const hostile = `# a comment
[core]
	repositoryformatversion = 0
	filemode = true ; another
	fsmonitor = "touch /tmp/owned; true"
	HooksPath=/tmp/hooks
	sshCommand = "evil \
	more"
	worktree = ../elsewhere
[remote "origin"]
	url = https://me:token@example.org/a/b.git
	fetch = +refs/heads/*:refs/remotes/origin/*
	uploadpack = evil
[remote "run"]
	url = ext::sh -c evil
[branch "a\"b"]
	remote = origin
	merge
[include]
	path = ../evil
[includeIf "gitdir:/"]
	path = ../evil
[filter "x"]
	clean = evil
[alias]
	st = !evil
[credential "https://example.org"]
	helper = !evil
[diff "pdf"]
	textconv = evil
[core "sub"] editor = evil
`

func TestSafe(t *testing.T) {
	t.Parallel()
	safe, removed, err := gitconfig.Safe(hostile, gitconfig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(safe, "evil") || strings.Contains(safe, "token") || strings.Contains(safe, "elsewhere") {
		t.Errorf("unsafe settings are left:\n%s", safe)
	}
	want := []string{
		"alias.st", "core.fsmonitor", "core.hookspath", "core.sshcommand", "core.sub.editor", "core.worktree",
		"credential.helper", "diff.pdf.textconv", "filter.x.clean", "include.path", "includeif.gitdir:/.path",
		"remote.origin.uploadpack", "remote.origin.url", "remote.run.url",
	}
	if !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
	again, _, err := gitconfig.Safe(safe, gitconfig.Options{})
	if err != nil || again != safe {
		t.Errorf("a safe configuration changes (%v):\n%s", err, again)
	}
	if kept, _, _ := gitconfig.Safe("[core]\nworktree=../../x\n", gitconfig.Options{Worktree: true}); !strings.Contains(kept, "../../x") {
		t.Error("core.worktree of a submodule is removed")
	}
}

// TestNoCredentials: neither the result nor the names of removed settings show
// credentials, wherever a configuration has an address.
func TestNoCredentials(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[url \"https://oauth2:TOKEN@h/\"]\ninsteadOf=x\n":                    "",
		"[url \"TOKEN@h:\"]\ninsteadOf=x\n":                                   "",
		"[remote \"https://u:TOKEN@h/\"]\nfetch=x\n":                          "",
		"[remote \"ext::TOKEN\"]\nfetch=x\n":                                  "",
		"[branch \"b\"]\nremote=https://u:TOKEN@h/p\n":                        "https://h/p",
		"[branch \"b\"]\npushRemote=https://TOKEN@h\n":                        "https://h/",
		"[branch \"b\"]\nremote=ext::TOKEN\n":                                 "",
		"[branch \"b\"]\nremote=--TOKEN\n":                                    "",
		"[branch \"b\"]\ndescription=http://u:TOKEN@h and http://u:TOKEN@h\n": "",
		"[remote \"o\"]\nurl=https://h/p.git?private_token=TOKEN\n":           "https://h/p.git",
		"[remote \"o\"]\nurl=https://u:x?TOKEN@h/p.git\n":                     "https://h/p.git",
		"[remote \"o\"]\nurl=ssh://git@h/p?TOKEN\n":                           "ssh://git@h/p",
		"[extensions]\npartialClone=ext::TOKEN\n":                             "",
		"[log]\nshowSignature=TOKEN\n":                                        "",
		"[gc]\nauto=-1\n":                                                     "-1",
		"[branch]\nsort=-committerdate\n":                                     "-committerdate",
	} {
		safe, removed, err := gitconfig.Safe(text, gitconfig.Options{})
		if err != nil || strings.Contains(safe+strings.Join(removed, " "), "TOKEN") || (safe == "") != (want == "") || !strings.Contains(safe, "\""+want+"\"") && want != "" {
			t.Errorf("%q becomes %q without %q, want the value %q (%v)", text, safe, removed, want, err)
		}
		if strings.Contains(text, "TOKEN") != (len(removed) == 1) {
			t.Errorf("%q: removed %q", text, removed)
		}
	}
}

// Git reads the same settings from the result.
func TestGitReadsIt(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	safe, _, err := gitconfig.Safe(hostile, gitconfig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(safe), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(git, "config", "--file", file, "--list").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := "core.repositoryformatversion=0\ncore.filemode=true\nremote.origin.url=https://example.org/a/b.git\n" +
		"remote.origin.fetch=+refs/heads/*:refs/remotes/origin/*\nbranch.a\"b.remote=origin\nbranch.a\"b.merge\n"
	if string(out) != want {
		t.Errorf("git reads\n%s\nwant\n%s", out, want)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", "[core", "[core]\nkey = \"a", "[core]\n1=2", "key=1", "[core]\nx = \\q\n", "[core \"a\nb\"]\n"} {
		if safe, _, err := gitconfig.Safe(text, gitconfig.Options{}); err == nil || safe != "" {
			t.Errorf("%q is accepted as %q", text, safe)
		}
	}
}

func FuzzSafe(f *testing.F) {
	f.Add(hostile)
	f.Add("[a.B \"c\"]\nx=\"y\" z\\\n\tw # c\n")
	f.Fuzz(func(t *testing.T, text string) {
		safe, _, err := gitconfig.Safe(text, gitconfig.Options{})
		if err != nil {
			return
		}
		again, removed, err := gitconfig.Safe(safe, gitconfig.Options{})
		if err != nil || again != safe || len(removed) > 0 {
			t.Errorf("%q becomes %q, and that %q (%v, %q)", text, safe, again, err, removed)
		}
	})
}

package publish

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

func number(n int) *int { return &n }

func yes(b bool) *bool { return &b }

// key is no key, but has the form of one.
const key = "-----BEGIN " + "PRIVATE KEY-----\nMC4CAQ\n-----END " + "PRIVATE KEY-----\n"

// token is none, but has the form of one.
const token = "gh" + "p_0123456789abcdefghijABCDEFGHIJ"

func many(n int, in string) []Change {
	var out []Change
	for i := range n {
		out = append(out, Change{Path: fmt.Sprintf(in, i), New: text("x\n")})
	}
	return out
}

// TestGates: each gate refuses with its own words, and one step below its limit does
// not.
func TestGates(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n", "old.pem": key, ".envrc": "x\n", "long": strings.Repeat("x", 2_000_000) + "\n", "half/config": "x\n", "half/objects/a": "x\n"})
	for want, changes := range map[string][]Change{
		"size: 26 changed files, the limit is 25":                  many(26, "d/f%02d"),
		"size: 1201 changed lines, the limit is 1200":              {{Path: "b", New: text(strings.Repeat("x\n", 1201))}},
		"size: 2501 changed lines, the limit is 1200":              {{Path: "b", New: text(strings.Repeat("x", 1_000_001))}},
		"size: 1100000 changed bytes, the limit is 1048576":        {{Path: "b", New: text(strings.Repeat(strings.Repeat("x", 999)+"\n", 1100))}},
		"size: 9 top-level areas, the limit is 8":                  many(9, "d%d/f"),
		"size: 1 binary file, the limit is 0":                      {{Path: "b", New: text("x\x00y")}},
		"control file: .envrc: environment loaded":                 {{Path: ".envrc", Old: text("x\n"), New: text("y\n")}},
		"control file: .forkcell/publish.yaml: forkcell's own":     {{Path: ".forkcell/publish.yaml", New: text("limits: {files: 1000}\n")}},
		"control file: .vscode/tasks.json: editor setting":         {{Path: ".vscode/tasks.json", New: text("{}\n")}},
		"control file: fix/t/config: git setting or hook":          {{Path: "fix/t/config", New: text("x\n")}, {Path: "fix/t/HEAD", New: text("x\n")}, {Path: "fix/t/objects/a", New: text("x\n")}},
		"control file: half/HEAD: makes half a git repository, wi": {{Path: "half/HEAD", New: text("x\n")}},
		"runs when pushed: .github/workflows/x.yml: CI workflow":   {{Path: ".github/workflows/x.yml", New: text("on: push\n")}},
		"runs when pushed: sub/.GitLab-CI.yml: CI workflow":        {{Path: "sub/.GitLab-CI.yml", New: text("a: 1\n")}},
		"runs when pushed: docs/CODEOWNERS: rule of reviews":       {{Path: "docs/CODEOWNERS", New: text("* @me\n")}},
		"runs when pushed: renovate.json: update bot":              {{Path: "renovate.json", New: text("{}\n")}},
		"runs when pushed: vercel.json: deployment on each push":   {{Path: "vercel.json", New: text("{}\n")}},
		"secret: .env: the rule .env":                              {{Path: ".env", New: text("x\n")}},
		"secret: k: its contents look like a key or a token":       {{Path: "k", New: text("a\n" + key)}},
		"secret: old.pem: its contents look like a key or a token": {{Path: "old.pem", Old: text(key), New: text(key + token + "\n")}},
		"secret: the path of a new file looks like it has":         {{Path: "d/" + token, New: text("x\n")}},
		"secret: late: its contents look like":                     {{Path: "late", New: text(strings.Repeat("long line ", 209_700) + key)}},
	} {
		d.refused(d.options(changes...), api.CodeGate, want)
	}
	for _, changes := range [][]Change{
		many(25, "d/f%02d"),
		{{Path: "b", New: text(strings.Repeat("x\n", 1200))}},
		{{Path: "b", New: text(strings.Repeat("x", 1200*longLine))}},
		{d.change("long", d.base["long"]+"y\n")},
		many(8, "d%d/f"),
		{{Path: "old.pem", Old: text(key), New: text("comment\n" + key)}},
		{{Path: "old.pem", Old: text(key)}},
	} {
		_, err := d.prepare(d.options(changes...))
		d.must(err)
	}
}

// TestNamedPrograms: what the settings of the directory name as a program is refused.
func TestNamedPrograms(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n", ".husky/pre-commit": "sh tools/check.sh\n"})
	d.refused(d.options(Change{Path: "tools/check.sh", New: text("x\n")}), api.CodeGate, "control file: tools/check.sh: named by .husky/pre-commit")
	_, err := d.prepare(d.options(Change{Path: "tools/other.sh", New: text("x\n")}))
	d.must(err)
}

// TestLinkedControl: what a link in the base commit makes a control file of is refused.
func TestLinkedControl(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"conf/settings.json": "one\n", "other/a": "one\n"})
	d.must(os.Symlink("mid", d.repo+"/.claude"))
	d.must(os.Symlink("conf", d.repo+"/mid"))
	d.commit("links", nil)
	d.refused(d.options(d.change("conf/settings.json", "two\n")), api.CodeGate, "control file: conf/settings.json: agent or MCP setting, .claude links to it")
	_, err := d.prepare(d.options(d.change("other/a", "two\n")))
	d.must(err)
}

// TestManyLinks: the links of a base commit are read together, and one that is longer than
// links can be leads nowhere.
func TestManyLinks(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"conf/settings.json": "one\n", "other/a": "one\n"})
	const many = 20
	for i := range many {
		sub := fmt.Sprintf("%s/sub%d", d.repo, i)
		d.must(os.Mkdir(sub, 0o755))
		d.must(os.Symlink("../conf", sub+"/.claude"))
	}
	d.commit("links", nil)
	long := d.exec(d.repo, "sh", "-c", "head -c 5000 /dev/zero | tr '\\0' a | git hash-object -w --stdin")
	d.git("update-index", "--add", "--cacheinfo", "120000,"+strings.TrimSpace(long)+",.vscode")
	d.git("commit", "-qm", "long")
	bin, o := t.TempDir(), d.options(d.change("conf/settings.json", "two\n"))
	git, err := exec.LookPath("git")
	d.must(err)
	d.must(os.WriteFile(bin+"/git", []byte("#!/bin/sh\necho \"$1\" >> "+bin+"/log\nexec "+git+" \"$@\"\n"), 0o755))
	o.Env = append(slices.DeleteFunc(slices.Clone(o.Env), func(kv string) bool { return strings.HasPrefix(kv, "PATH=") }), "PATH="+bin+":"+os.Getenv("PATH"))
	d.refused(o, api.CodeGate, "control file: conf/settings.json: agent or MCP setting, sub0/.claude links to it")
	log, err := os.ReadFile(bin + "/log")
	d.must(err)
	if n := strings.Count(string(log), "cat-file"); n >= many {
		t.Errorf("%d objects were read one by one", n)
	}
}

// TestSettings: the operator's settings loosen, those of the base commit only tighten.
func TestSettings(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{
		"a":          "one\n",
		settingsFile: "limits: {files: 2, lines: 5000, areas: 100, binaries: 7}\nrequire_signed: false\nallow_control: ['*']\nallowed_signers: /etc/passwd\nbase: main\n",
	})
	d.refused(d.options(many(3, "f%d")...), api.CodeGate, "size: 3 changed files, the limit is 2 by .forkcell/publish.yaml of the base commit")
	d.refused(d.options(Change{Path: "b", New: text("\x00")}), api.CodeGate, "size: 1 binary file, the limit is 0")
	d.refused(d.options(Change{Path: ".envrc", New: text("x\n")}), api.CodeGate, "control file: .envrc")
	o := d.options(d.change("a", "two\n"))
	o.Sign = SignOff
	d.refused(o, api.CodeGate, "--sign off is refused")

	d.settings = Settings{Limits: Limits{Files: number(100), Binaries: number(1)}, AllowControl: []string{".envrc"}, RequireSigned: yes(false)}
	d.refused(d.options(many(3, "f%d")...), api.CodeGate, "size: 3 changed files, the limit is 2 by .forkcell/publish.yaml of the base commit")
	o = d.options(Change{Path: "b", New: text("\x00")}, Change{Path: ".envrc", New: text("x\n")})
	o.Sign = SignOff
	w, err := d.prepare(o)
	d.must(err)
	if got := strings.Join(w.Rules.WithoutEffect, " "); got != "allow_control allowed_signers limits.areas limits.binaries limits.lines" || w.Signed != SignOff {
		t.Errorf("without effect: %s, signed %s", got, w.Signed)
	}
	d.git("branch", "other")
	o = d.options(d.change("a", "two\n"))
	o.Base = "other"
	d.refused(o, api.CodeGate, "allows the base main only")
}

// TestPushedFiles: the operator alone lets files through that run when they are pushed,
// also behind a link of the base commit.
func TestPushedFiles(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"tools/build/run.sh": "one\n"})
	d.must(os.MkdirAll(d.repo+"/.github", 0o755))
	d.must(os.Symlink("../tools", d.repo+"/.github/actions"))
	d.commit("links", nil)
	workflow := Change{Path: ".github/workflows/x.yml", New: text("on: push\n")}
	d.refused(d.options(d.change("tools/build/run.sh", "two\n")), api.CodeGate,
		"runs when pushed: tools/build/run.sh: CI workflow or action, .github/actions links to it")
	d.settings.AllowControl = []string{".github/workflows/"}
	_, err := d.prepare(d.options(workflow))
	d.must(err)
	d.settings.AllowControl = []string{".envrc"}
	d.refused(d.options(workflow), api.CodeGate, "runs when pushed: .github/workflows/x.yml")
}

// TestTexts: the texts of a publication pass the gate of secrets too.
func TestTexts(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n"})
	for want, change := range map[string]func(*Options){
		"secret: --message looks like": func(o *Options) { o.Message = "it is " + token },
		"secret: --title looks like":   func(o *Options) { o.Title = "use " + token },
		"secret: --branch looks like":  func(o *Options) { o.Branch = "work/" + token },
	} {
		o := d.options(d.change("a", "two\n"))
		change(&o)
		d.refused(o, api.CodeGate, want)
		if _, err := d.prepare(o); err != nil && strings.Contains(fmt.Sprintf("%+v", err), token) {
			t.Errorf("the refusal shows the secret: %v", err)
		}
	}
}

// TestBranchesOfTokens: a caller with a token makes only branches that the operator
// lists; the base commit can only take some of them away.
func TestBranchesOfTokens(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n"})
	asked := func(branch string) Options {
		o := d.options(d.change("a", "two\n"))
		o.Branch, o.HasToken = branch, true
		return o
	}
	may := func(branch string) {
		t.Helper()
		_, err := d.prepare(asked(branch))
		d.must(err)
	}
	const no = "a caller with a token may not make the branch "
	for _, branch := range []string{"gh-pages", "production", "work", "works/x"} {
		d.refused(asked(branch), api.CodeGate, no+branch)
	}
	may("work/x")
	may("forkcell/x/y")
	d.settings.Branches = []string{"agents/*", "release-*"}
	d.refused(asked("work/x"), api.CodeGate, no+"work/x; it may make agents/*, release-*")
	d.refused(asked("agents/a/b"), api.CodeGate, no)
	may("agents/a")
	may("release-1")
	d.settings.Branches = []string{}
	d.refused(asked("work/x"), api.CodeGate, "it may make none")
	d.settings.Branches = []string{"**"}
	may("gh-pages")
	d.commit("own", map[string]string{settingsFile: "branches: [work/**]\n"})
	d.refused(asked("gh-pages"), api.CodeGate, no+"gh-pages; it may make work/**")
	may("work/a/b")
	o := asked("gh-pages")
	o.HasToken = false
	_, err := d.prepare(o)
	d.must(err)
}

// TestHintOfLimits: the hint names each file whose limit refuses, and no other.
func TestHintOfLimits(t *testing.T) {
	t.Parallel()
	const part, own, base = "accept a part of it", ", or loosen the gate in publish.yaml of your configuration directory", "; what the base commit limits changes only with a commit there"
	d := newDesk(t, map[string]string{"a": "one\n", settingsFile: "limits: {files: 2}\n"})
	for _, c := range []struct {
		files   int // the operator's limit
		changes []Change
		want    string
	}{
		{5, many(3, "f%d"), part + base},
		{2, many(3, "f%d"), part + own + base},
		{5, many(6, "f%d"), part + own + base},
		{1, many(3, "f%d"), part + own},
		{5, append(many(3, "f%d"), Change{Path: ".envrc", New: text("x\n")}), part + own + base},
	} {
		d.settings = Settings{Limits: Limits{Files: number(c.files)}}
		_, err := d.prepare(d.options(c.changes...))
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Hint != c.want {
			t.Errorf("limit %d, %d changes: %v, want the hint %q", c.files, len(c.changes), err, c.want)
		}
	}
}

// TestBadSettings: a file of the base commit that cannot be read stops everything.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"limits: {files: -1}\n", "limits: {bytes: -1}\n", "branches: ['[']\n", "branches: ['']\n", "unknown: 1\n", "limits: [1]\n", "{", "a: 1\n---\nb: 2\n", "allow_control: ['[']\n", "forges: [{host: x, kind: svn}]\n"} {
		if _, err := ParseSettings([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	d := newDesk(t, map[string]string{"a": "one\n", settingsFile: "limits: {files: many}\n"})
	d.refused(d.options(d.change("a", "two\n")), api.CodeGate, ".forkcell/publish.yaml of the base commit: ")
}

// TestRequiredByBase: the base commit requires signatures that the operator does not.
func TestRequiredByBase(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n", settingsFile: "require_signed: true\n"})
	d.settings.RequireSigned = yes(false)
	o := d.options(d.change("a", "two\n"))
	o.Sign = SignOff
	d.refused(o, api.CodeGate, "commits must be signed")
}

// TestAttributes: attributes of the work or of the base do not turn a binary file
// into text, or text into binary.
func TestAttributes(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n", ".gitattributes": "*.bin diff text\n*.txt binary\n"})
	d.refused(d.options(Change{Path: "x.bin", New: text("\x00\n")}), api.CodeGate, "size: 1 binary file")
	d.refused(d.options(Change{Path: "x.bin", New: text(strings.Repeat("a", 9000) + "\x00\n")}), api.CodeGate, "size: 1 binary file")
	_, err := d.prepare(d.options(Change{Path: "x.txt", New: text("plain\n")}))
	d.must(err)
}

// TestSigners: a signature counts only if the key is an allowed one.
func TestSigners(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n"})
	d.exec(d.home, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "other")
	d.signers("other")
	d.refused(d.options(d.change("a", "two\n")), api.CodeGate, "is not by an allowed signer")
	d.settings.AllowedSigners = d.home + "/none"
	d.refused(d.options(d.change("a", "two\n")), api.CodeGate, "does not exist")
	d.exec(d.home, "chmod", "666", "signers")
	d.settings.AllowedSigners = "~/signers"
	d.refused(d.options(d.change("a", "two\n")), api.CodeGate, "open to others")
	d.settings.AllowedSigners = ""
	d.git("config", "--global", "--unset", "gpg.ssh.allowedSignersFile")
	d.refused(d.options(d.change("a", "two\n")), api.CodeGate, "there is no file of allowed signers")
	d.git("config", "--global", "--unset", "user.signingkey")
	d.refused(d.options(d.change("a", "two\n")), api.CodePublish, "has no user.signingkey")
	d.settings.RequireSigned = yes(false)
	d.git("config", "--global", "--unset", "user.email")
	o := d.options(d.change("a", "two\n"))
	o.Sign = SignOff
	d.refused(o, api.CodePublish, "no user.email")
}

func FuzzParseSettings(f *testing.F) {
	f.Add([]byte("limits: {files: 2}\nrequire_signed: true\nforges: [{host: h, kind: gitea, api: 'https://h/api/v1', token: 'env:T'}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseSettings(text)
		if err != nil {
			return
		}
		if r := combine(Settings{}, s); r.Files > defaultFiles || r.Lines > defaultLines || r.Bytes > defaultBytes || r.Areas > defaultAreas || r.Binaries > 0 || !r.RequireSigned || len(r.allowControl) > 0 {
			t.Errorf("%q loosens the rules: %+v", text, r)
		}
	})
}

package publish

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// armed sets every trap that a repository can have: each one leaves the mark when a
// program uses the repository as git does.
func armed(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t, map[string]string{
		"a": "one\n", "a.flt": "filtered\n", ".gitattributes": "*.flt filter=trap diff=trap merge=trap\n* text=auto\n",
		".gitmodules": "[submodule \"m\"]\n\tpath = m\n\turl = ext::sh -c touch% mark\n",
	})
	trap := d.trap()
	for _, hook := range []string{
		"pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "pre-push", "reference-transaction", "post-checkout", "post-index-change",
		"update", "pre-receive", "post-receive", "post-update", "fsmonitor-watchman", "post-rewrite", "pre-auto-gc", "push-to-checkout", "proc-receive",
	} {
		d.write(".git/hooks/"+hook, "#!/bin/sh\n"+trap+"\n")
		d.must(os.Chmod(filepath.Join(d.repo, ".git/hooks", hook), 0o755))
	}
	d.write(".git/trap", "#!/bin/sh\n"+trap+"\ncat\n")
	d.must(os.Chmod(d.repo+"/.git/trap", 0o755))
	program := d.repo + "/.git/trap"
	d.write(".git/included", "[core]\n\tsshCommand = "+program+"\n\tpager = "+program+"\n")
	d.write(".git/info/attributes", "* filter=trap diff=trap\n")
	d.write(".git/config", strings.Join([]string{
		"[core]\n\trepositoryformatversion = 1\n\tbare = false",
		"\tfsmonitor = " + program, "\tsshCommand = " + program, "\teditor = " + program, "\taskPass = " + program, "\tpager = " + program,
		"\talternateRefsCommand = " + program, "\tgitProxy = " + program,
		"[filter \"trap\"]\n\tclean = " + program + "\n\tsmudge = " + program + "\n\tprocess = " + program + "\n\trequired = true",
		"[diff]\n\texternal = " + program + "\n[diff \"trap\"]\n\ttextconv = " + program + "\n\tcommand = " + program,
		"[merge \"trap\"]\n\tdriver = " + program,
		"[gpg]\n\tprogram = " + program + "\n\tformat = openpgp\n[gpg \"ssh\"]\n\tprogram = " + program + "\n\tdefaultKeyCommand = " + program,
		"[user]\n\tname = Mallory\n\temail = mallory@example.com\n\tsigningkey = /nowhere",
		"[commit]\n\tgpgsign = false",
		"[credential]\n\thelper = !" + trap, "[include]\n\tpath = " + d.repo + "/.git/included",
		"[url \"ext::sh -c " + program + "\"]\n\tinsteadOf = " + d.repo, "[protocol]\n\tallow = always\n[protocol \"ext\"]\n\tallow = always",
		"[uploadpack]\n\tpackObjectsHook = " + program,
		"[extensions]\n\tpartialClone = evil\n[remote \"evil\"]\n\turl = ext::sh -c " + program + "\n\tpromisor = true",
		"[remote \"origin\"]\n\turl = " + d.repo + "/../origin.git\n\treceivepack = " + program + "\n\tuploadpack = " + program + "\n\tvcs = ext",
		"[alias]\n\tpush = !" + trap + "\n\tconfig = !" + trap,
	}, "\n")+"\n")
	return d
}

// TestHostileRepository: a repository full of programs runs none of them.
func TestHostileRepository(t *testing.T) {
	t.Parallel()
	d := armed(t)
	origin := filepath.Join(filepath.Dir(d.repo), "origin.git")
	d.exec(d.home, "git", "init", "--quiet", "--bare", origin)
	d.exec(d.home, "git", "-C", origin, "fetch", "--quiet", "--no-tags", bare(d), "main:main")
	_ = os.Remove(d.mark)
	o := d.options(d.change("a", "two\n"), d.change("b.flt", "not filtered\n"), Change{Path: "a.flt", Old: text("filtered\n"), New: text("other\n")})
	w, err := d.prepare(o)
	d.must(err)
	remote, err := parseRemote(origin)
	d.must(err)
	d.must(w.Push(t.Context(), remote))
	d.must(w.AddBranch(t.Context()))
	if d.marked() {
		t.Error("a program of the repository was run")
	}
	got := d.exec(origin, "git", "log", "-1", "--format=%an %ae", "work")
	if got != "Op Erator op@example.com" {
		t.Errorf("the author is %s", got)
	}
	// The traps work: git in this repository runs them.
	d.write("b.flt", "x\n")
	_, _ = d.tryGit("add", "b.flt")
	if !d.marked() {
		t.Error("the traps are not armed")
	}
}

// bare returns a copy of the objects and references of a repository, without its
// configuration.
func bare(d *desk) string {
	d.t.Helper()
	at := d.t.TempDir()
	d.exec(at, "git", "init", "--quiet", "--bare", at)
	d.exec(at, "sh", "-c", "cp -r '"+d.repo+"'/.git/objects/. objects/ && cp -r '"+d.repo+"'/.git/refs/. refs/")
	return at
}

// TestReplacedAndGrafted: replacement objects, grafts, commit graphs and shallow
// marks of the host do not change what the base commit is.
func TestReplacedAndGrafted(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n"})
	base := d.git("rev-parse", "main")
	evil := d.commit("evil", map[string]string{"a": "evil\n", ".forkcell/publish.yaml": "limits: {files: 0}\n"})
	d.git("reset", "--quiet", "--hard", base)
	d.git("commit-graph", "write")
	d.git("replace", base, evil)
	d.write(".git/info/grafts", base+" "+evil+"\n")
	w := d.publish(d.change("a", "two\n"))
	if got := d.git("--no-replace-objects", "cat-file", "-p", w.Commit); !strings.Contains(got, "parent "+base) {
		t.Errorf("the commit:\n%s", got)
	}
}

// TestDamagedObjects: an object whose contents are not those of its name stops the
// publication.
func TestDamagedObjects(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n", "b": "two\n"})
	id := func(name string) string {
		hash := d.git("rev-parse", "main:"+name)
		return d.repo + "/.git/objects/" + hash[:2] + "/" + hash[2:]
	}
	d.must(os.Chmod(id("a"), 0o644))
	other, err := os.ReadFile(id("b"))
	d.must(err)
	d.must(os.WriteFile(id("a"), other, 0o644))
	_, err = d.prepare(d.options(d.change("b", "three\n")))
	d.isRefused(err, api.CodePublish, "copy the base commit")
}

// TestDangerousModules: git refuses files in the base that would run a program in a
// clone.
func TestDangerousModules(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n", ".gitmodules": "[submodule \"m\"]\n\tpath = m\n\turl = x\n\tupdate = !touch mark\n"})
	_, err := d.prepare(d.options(d.change("a", "two\n")))
	d.isRefused(err, api.CodePublish, "disallowed submodule update setting")
}

// TestLyingIndex: the index of a pack says that an object is where another one is.
func TestLyingIndex(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n", "b": "two\n"})
	base := d.git("rev-parse", "main")
	d.commit("evil", map[string]string{"a": "evil\n"})
	d.git("branch", "evil")
	a, b := d.git("rev-parse", base+":a"), d.git("rev-parse", "evil:a")
	d.git("reset", "--quiet", "--hard", base)
	d.git("repack", "-adq")
	found, err := filepath.Glob(d.repo + "/.git/objects/pack/*.idx")
	d.must(err)
	index, err := os.ReadFile(found[0])
	d.must(err)
	swapped := swapOffsets(t, index, a, b)
	d.must(os.Chmod(found[0], 0o644))
	d.must(os.WriteFile(found[0], swapped, 0o644))
	_, err = d.prepare(d.options(Change{Path: "c", New: text("three\n")}))
	d.isRefused(err, api.CodePublish, "copy the base commit")
}

// TestObjectsElsewhere: alternates, links among the objects and repositories in
// other directories could bring in objects of other repositories of the host.
func TestObjectsElsewhere(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(d *desk){
		"alternates":                      func(d *desk) { d.write(".git/objects/info/alternates", "/somewhere\n") },
		"objects of other repositories":   func(d *desk) { d.write(".git/commondir", "../../other\n") },
		"pack-x.pack is not a regular":    func(d *desk) { d.must(os.Symlink("/etc/passwd", d.repo+"/.git/objects/pack/pack-x.pack")) },
		"in another directory":            func(d *desk) { d.move(".git", "elsewhere"); d.write(".git", "gitdir: elsewhere\n") },
		"repository is in another direct": func(d *desk) { d.move(".git", "elsewhere"); d.must(os.Symlink("elsewhere", d.repo+"/.git")) },
		"has no git repository":           func(d *desk) { d.move(".git", "elsewhere") },
		"refstorage = reftable":           func(d *desk) { d.git("config", "extensions.refstorage", "reftable") },
		"objectformat = sha256":           func(d *desk) { d.git("config", "extensions.objectformat", "sha256") },
		".git/config: ":                   func(d *desk) { d.write(".git/config", "[broken") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, map[string]string{"a": "one\n"})
			o := d.options(d.change("a", "two\n"))
			do(d)
			_, err := d.prepare(o)
			d.isRefused(err, api.CodePublish, name)
		})
	}
}

func (d *desk) move(from, to string) {
	d.must(os.Rename(filepath.Join(d.repo, from), filepath.Join(d.repo, to)))
}

// TestGitInTheWork: a program called git that the work holds is not run, although
// the search path names its directory.
func TestGitInTheWork(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n"})
	d.write("bin/git", "#!/bin/sh\n"+d.trap()+"\n")
	d.must(os.Chmod(d.repo+"/bin/git", 0o755))
	o := d.options(d.change("a", "two\n"))
	o.Env = append([]string{}, o.Env...)
	for i, kv := range o.Env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			o.Env[i] = "PATH=" + d.repo + "/bin:bin:." + ":" + path
		}
	}
	_, err := d.prepare(o)
	d.must(err)
	if d.marked() {
		t.Error("git of the work was run")
	}
	o = d.options(d.change("a", "two\n"))
	o.Env = []string{"HOME=" + d.home, "PATH=" + d.repo + "/bin"}
	d.refused(o, api.CodePublish, "there is no git in the search path")
}

// TestEnvironment: variables that configure git have no effect.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n"})
	o := d.options(d.change("a", "two\n"))
	o.Env = append(o.Env[:len(o.Env):len(o.Env)], "GIT_DIR=/nowhere", "GIT_WORK_TREE=/nowhere", "GIT_INDEX_FILE=/nowhere", "GIT_OBJECT_DIRECTORY=/nowhere",
		"GIT_EXEC_PATH="+d.repo, "GIT_TEMPLATE_DIR=/nowhere", "GIT_SSH_COMMAND="+d.trap(), "GIT_EXTERNAL_DIFF="+d.trap(), "GIT_AUTHOR_NAME=Mallory",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=Mallory", "GIT_CONFIG_PARAMETERS='user.name=Mallory'", "GIT_TRACE="+d.mark)
	w, err := d.prepare(o)
	d.must(err)
	d.must(w.AddBranch(t.Context()))
	if got := d.git("log", "-1", "--format=%an %cn", "work"); got != "Op Erator Op Erator" || d.marked() {
		t.Errorf("author %s, marked %v", got, d.marked())
	}
}

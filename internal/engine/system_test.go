package engine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

func overHost(r *api.RunRequest) { r.Root = "host-overlay" }
func asRoot(r *api.RunRequest)   { r.Root, r.AsRoot = "host-overlay", true }

func ruledBy(text string) func(*api.RunRequest) {
	return func(r *api.RunRequest) { r.Policy = &api.PolicyFile{Name: "policy.yaml", Text: []byte(text)} }
}

// changed lists what a diff of everything says, as "change path".
func (w *world) changed(name string) []string {
	w.Helper()
	res, err := w.e.Diff(w.ctx, api.DiffRequest{Cell: name, All: true})
	w.ok(err)
	var list []string
	for _, c := range res.Changes {
		list = append(list, c.Change+" "+c.Path)
	}
	return list
}

func hasLine(list []string, line string) bool {
	for _, l := range list {
		if l == line {
			return true
		}
	}
	return false
}

// TestSystemIsState installs a package with the real dpkg. Its changes of the
// system are part of the cell's state. They are shown, forked and restored, and
// never reach the host.
func TestSystemIsState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if os.Geteuid() != 0 {
		w.init("demo", "overlay")
		_, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"true"}, RunOptions: api.RunOptions{Root: "host-overlay", AsRoot: true}}, engine.Stdio{})
		w.refused(err, api.Refused, driver.HostOverlayNeedsRoot)
		return
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("no dpkg-deb: not a Debian system")
	}
	makePackage(w)
	w.init("demo", "overlay")
	res, out := w.sh("demo", "dpkg -i probe.deb && forkcell-probe && id -u && stat -c %u /usr/bin/forkcell-probe", asRoot)
	if res.Outcome != "succeeded" || !strings.HasSuffix(out, "installed\n0\n0\n") {
		t.Fatalf("%+v\n%s", res, out)
	}
	if !hasLine(res.Degraded, "the command is root in the cell: lower assurance") {
		t.Errorf("degraded: %v", res.Degraded)
	}
	if _, err := os.Lstat("/usr/bin/forkcell-probe"); err == nil {
		t.Fatal("the package is on the host")
	}
	list := w.changed("demo")
	for _, want := range []string{"added /usr/bin/forkcell-probe", "modified /var/lib/dpkg/status", "added /etc/forkcell-probe.conf"} {
		if !hasLine(list, want) {
			t.Errorf("no %q in %v", want, list)
		}
	}
	// A fork has it too, also for a command that is not root. The parent does
	// not have it after a restore.
	_, err := w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "copy"})
	w.ok(err)
	_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo"})
	w.ok(err)
	if res, out := w.sh("copy", "forkcell-probe; id -un", overHost); res.Outcome != "succeeded" || out != "installed\nsandbox\n" {
		t.Errorf("fork: %+v %q", res, out)
	}
	if res, _ := w.sh("demo", "forkcell-probe", overHost); res.ExitCode != 127 {
		t.Errorf("restored: %+v", res)
	}
	// Without the overlay of the system the state still keeps it.
	w.sh("copy", "echo more > more.txt")
	if res, out := w.sh("copy", "forkcell-probe", overHost); out != "installed\n" {
		t.Errorf("after a run without it: %+v %q", res, out)
	}
	w.sound("demo", "copy")
}

func makePackage(w *world) {
	w.Helper()
	dir := filepath.Join(w.TempDir(), "pkg")
	for name, text := range map[string]string{
		"DEBIAN/control":          "Package: forkcell-probe\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: a probe\n",
		"DEBIAN/conffiles":        "/etc/forkcell-probe.conf\n",
		"DEBIAN/postinst":         "#!/bin/sh\nset -e\nchown 123:45 /etc/forkcell-probe.conf\n",
		"usr/bin/forkcell-probe":  "#!/bin/sh\necho installed\n",
		"etc/forkcell-probe.conf": "on\n",
	} {
		path := filepath.Join(dir, name)
		w.ok(os.MkdirAll(filepath.Dir(path), 0o755))
		w.ok(os.WriteFile(path, []byte(text), 0o755))
	}
	out, err := exec.Command("dpkg-deb", "--root-owner-group", "-b", dir, filepath.Join(w.source, "probe.deb")).CombinedOutput()
	if err != nil {
		w.Fatalf("%v: %s", err, out)
	}
}

// TestSystemKeepsItsSecrets: a command that is root in the cell cannot read
// what only the host's root may read.
func TestSystemKeepsItsSecrets(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("--root host-overlay needs root")
	}
	w := newWorld(t)
	w.init("demo", "overlay")
	// Every file of the host that others may not read, in what a cell shows.
	script := `cat /etc/shadow; find /etc /usr /var /opt -xdev \( -type f ! -perm -o=r -o -type d ! -perm -o=rx \) 2>/dev/null | grep -v -e '^/etc/g\?shadow$' | head`
	res, out := w.sh("demo", script, asRoot)
	if res.Outcome != "succeeded" && res.ExitCode != 1 {
		t.Fatalf("%+v %s", res, out)
	}
	if out != "root:*:19000:0:99999:7:::\nsandbox:*:19000:0:99999:7:::\n" {
		t.Errorf("the cell sees\n%s", out)
	}
	// It may replace them, and still reaches nothing of the host.
	res, out = w.sh("demo", "echo x > /etc/sudoers; useradd -M probe; grep -c probe /etc/passwd /etc/shadow; ls /root /home; ls -A /run | wc -l; cat /proc/1/environ", asRoot)
	if !strings.Contains(out, "/etc/passwd:1\n/etc/shadow:1\n") {
		t.Errorf("%+v %s", res, out)
	}
	if host, err := os.ReadFile("/etc/passwd"); err != nil || strings.Contains(string(host), "probe:x:") {
		t.Errorf("the host's users: %v\n%s", err, host)
	}
	w.sound("demo")
}

// TestOtherRoot shows a directory instead of the host's system.
func TestOtherRoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	root := filepath.Join(t.TempDir(), "root")
	w.ok(os.Chmod(filepath.Dir(root), 0o755))
	for _, dir := range []string{"usr/bin", "usr/lib", "usr/lib64", "etc"} {
		w.ok(os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	for _, link := range []string{"bin", "lib", "lib64"} {
		w.ok(os.Symlink("usr/"+link, filepath.Join(root, link)))
	}
	w.ok(os.WriteFile(filepath.Join(root, "etc/flavour"), []byte("another system\n"), 0o644))
	copyStatic(w, filepath.Join(root, "usr/bin/sh"))
	res, out := w.sh("demo", "read line < /etc/flavour; echo $line; read user < /etc/passwd; echo $user; echo changed > hello.txt; echo x > /usr/x",
		func(r *api.RunRequest) { r.Root = api.Text(root) })
	if !strings.HasPrefix(out, "another system\nroot:x:0:0:") || res.ChangedFiles != 1 {
		t.Errorf("%+v %s", res, out)
	}
	if _, err := os.Lstat(filepath.Join(root, "usr/x")); err == nil {
		t.Error("the directory was written to")
	}
	_, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"true"}, RunOptions: api.RunOptions{Root: api.Text(filepath.Join(root, "none"))}}, engine.Stdio{})
	w.refused(err, api.Usage, "--root")
	_, err = w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"true"}, RunOptions: api.RunOptions{AsRoot: true}}, engine.Stdio{})
	w.refused(err, api.Usage, "--as-root")
	w.sound("demo")
}

// copyStatic puts a shell that needs nothing else at path, with its libraries
// where it has any.
func copyStatic(w *world, path string) {
	w.Helper()
	root := strings.TrimSuffix(path, "/usr/bin/sh")
	copyFile := func(from, to string) {
		w.Helper()
		data, err := os.ReadFile(from)
		w.ok(err)
		w.ok(os.MkdirAll(filepath.Dir(to), 0o755))
		w.ok(os.WriteFile(to, data, 0o755))
	}
	copyFile("/bin/sh", path)
	out, err := exec.Command("ldd", "/bin/sh").Output()
	if err != nil {
		return // a static one
	}
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			copyFile(word, filepath.Join(root, "usr", strings.TrimPrefix(word, "/usr")))
		}
	}
}

// TestWritablePaths: a policy's read_write path is writable in the cell only,
// and what is written there is kept with the state.
func TestWritablePaths(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			cache := filepath.Join(t.TempDir(), "cache")
			for d := cache; d != "/tmp" && d != "/"; d = filepath.Dir(d) {
				_ = os.MkdirAll(d, 0o755)
			}
			w.ok(os.WriteFile(filepath.Join(cache, "old"), []byte("old\n"), 0o644))
			w.init("demo", backend)
			rule := ruledBy("version: 1\nfilesystem_policy:\n  read_only: [/usr, /etc]\n  read_write: [" + cache + "]\n")
			res, out := w.sh("demo", "echo new > "+cache+"/new && cat "+cache+"/old", rule)
			if res.Outcome != "succeeded" || out != "old\n" {
				t.Fatalf("%+v %s", res, out)
			}
			if _, err := os.Lstat(filepath.Join(cache, "new")); err == nil {
				t.Fatal("it was written to the host")
			}
			if list := w.changed("demo"); !hasLine(list, "added "+cache+"/new") {
				t.Errorf("changes: %v", list)
			}
			if _, out := w.sh("demo", "cat "+cache+"/new", rule); out != "new\n" {
				t.Errorf("the next run reads %q", out)
			}
			if _, out := w.sh("demo", "cat "+cache+"/new 2>&1 || true"); !strings.Contains(out, "No such file") {
				t.Errorf("without the policy: %q", out)
			}
			w.sound("demo")
		})
	}
}

// TestNoWorkdir leaves the workspace out.
func TestNoWorkdir(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	res, out := w.sh("demo", "pwd; ls "+w.source, ruledBy("version: 1\nfilesystem_policy:\n  include_workdir: false\n  read_only: [/usr, /etc]\n"))
	if !strings.HasPrefix(out, "/home/sandbox\n") || res.ExitCode == 0 {
		t.Errorf("%+v %s", res, out)
	}
	w.sound("demo")
}

// TestListedBelowTmp: a listed path beneath /tmp is in the cell's private /tmp.
// A listed path inside a read_write path is the cell's own, and read-only.
func TestListedBelowTmp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := openDir(t)
	for name, text := range map[string]string{"ro/file": "read\n", "rw/file": "write\n", "rw/fixed": "fixed\n", "single": "one\n", "ro/hidden/rw/file": "inner\n"} {
		w.ok(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		w.ok(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	w.ok(os.Symlink("ro/file", filepath.Join(dir, "link")))
	w.init("demo", "")
	rule := ruledBy("version: 1\nfilesystem_policy:\n  read_only: [/usr, /etc, " + dir + "/ro, " + dir + "/single, " + dir + "/link, " + dir + "/rw/fixed]\n" +
		"  read_write: [" + dir + "/rw, " + dir + "/ro/hidden/rw]\n")
	for range 2 { // the second run starts from the result of the first
		_, out := w.sh("demo", "cd "+dir+"; cat ro/file single link rw/file ro/hidden/rw/file; echo more >> rw/file && echo more >> ro/hidden/rw/file; "+
			"for f in ro/new ro/file single rw/fixed; do (: > $f) 2>/dev/null && echo wrote $f; done; : > /tmp/mine; cat rw/fixed", rule)
		if want := "read\none\nread\nwrite\ninner\nfixed\n"; out != want {
			t.Errorf("the cell said\n%s, want\n%s", out, want)
		}
		w.ok(os.WriteFile(filepath.Join(dir, "rw/file"), []byte("write\n"), 0o644))
		_, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo"})
		w.ok(err)
	}
	w.sound("demo")
}

// openDir is a temporary directory that every user of the host may look into.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "forkcell-listed-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestWritablePathsAreTheCallers: the caller's files in a read_write path
// belong to the sandbox user, who can do with them what the caller could. The
// host does not see the changes.
func TestWritablePathsAreTheCallers(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			dir := openDir(t)
			for _, name := range []string{"file", "old", "gone", "sub/file"} {
				w.ok(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
				w.ok(os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"), 0o644))
			}
			w.init("demo", backend)
			rule := ruledBy("version: 1\nfilesystem_policy:\n  read_only: [/usr, /etc]\n  read_write: [" + dir + "]\n")
			res, out := w.sh("demo", "cd "+dir+" && stat -c %U . file sub/file && echo more >> file && mv old new && rm gone && chmod 600 sub/file && "+
				"mkdir -p sub/deeper && ln file hard && cat file new", rule)
			if res.Outcome != "succeeded" || out != "sandbox\nsandbox\nsandbox\nfile\nmore\nold\n" {
				t.Fatalf("%+v %s", res, out)
			}
			if res, out := w.sh("demo", "cd "+dir+" && ls && stat -c '%U %a' new sub/file && cat file", rule); out != "file\nhard\nnew\nsub\nsandbox 644\nsandbox 600\nfile\nmore\n" {
				t.Errorf("the next run: %+v %s", res, out)
			}
			for name, want := range map[string]string{"file": "file\n", "old": "old\n", "gone": "gone\n", "sub/file": "sub/file\n"} {
				if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != want {
					t.Errorf("on the host %s holds %q, %v", name, text, err)
				}
			}
			w.sound("demo")
		})
	}
}

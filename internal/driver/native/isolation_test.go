package native

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/landlock"
	"github.com/forkcell/forkcell/internal/mount"

	"github.com/forkcell/forkcell/internal/driver"
)

func TestIdentity(t *testing.T) {
	f := newFixture(t, Options{})
	id := callerIdentity()
	want(t, "user", f.sh("id -u; id -g; id -un; id -gn; echo ~sandbox"),
		fmt.Sprintf("%d\n%d\nsandbox\nsandbox\n/home/sandbox", id.UID, id.GID))
	if id.Root {
		want(t, "groups", f.sh("id -G"), "1000")
	}
	status := f.sh("grep -E '^(Cap...|NoNewPrivs):' /proc/self/status | tr -d '\\t'")
	want(t, "privileges", status, strings.ReplaceAll("CapInh:0\nCapPrm:0\nCapEff:0\nCapBnd:0\nCapAmb:0\n", ":0", ":0000000000000000")+"NoNewPrivs:1")
	// A new session, whose leader is the command, below pid 1.
	want(t, "process", f.sh("read a b c ppid pgrp session rest < /proc/$$/stat; echo $ppid; test $session = $$ && test $pgrp = $$ && echo leader"), "1\nleader")
}

func TestNamespaces(t *testing.T) {
	f := newFixture(t, Options{})
	out := f.sh("for n in user mnt pid ipc uts net cgroup; do readlink /proc/self/ns/$n; done")
	for _, line := range strings.Fields(out) {
		name, _, _ := strings.Cut(line, ":")
		host, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if line == host {
			t.Errorf("namespace %s is the host's", name)
		}
	}
	want(t, "interfaces", f.sh("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"), "lo")
	want(t, "processes", f.sh("ls /proc | grep -c '^[0-9]*$'"), "4") // init, sh, ls, grep
}

func TestHostIsAbsent(t *testing.T) {
	f := newFixture(t, Options{})
	root := f.sh("ls -A /")
	allowed := map[string]bool{"dev": true, "etc": true, "home": true, "proc": true, "src": true, "tmp": true}
	for _, name := range systemNames() {
		allowed[name] = true
	}
	for _, name := range strings.Fields(root) {
		if !allowed[name] {
			t.Errorf("/%s is visible", name)
		}
	}
	want(t, "above the root", f.sh("ls -A /.."), root)
	want(t, "mounts on the root", f.sh("awk '$2==\"/\"' /proc/mounts | wc -l; cut -d' ' -f2 /proc/mounts | sort | uniq -d"), "1")
	want(t, "homes", f.sh("ls -A /home"), "sandbox")
	want(t, "/tmp", f.sh("ls -A /tmp"), "")
	for _, path := range []string{"/usr/x", "/etc/x", "/x", "/dev/x", "/home/x", "/src/x", "/etc/passwd", "/bin/sh", "/dev/null.x"} {
		_, stderr, out, err := f.try(nil, "/bin/sh", "-c", "echo >> "+path)
		if err != nil || out.Code == 0 {
			t.Errorf("%s can be written: %v %q", path, err, stderr)
		}
	}
	for _, mountpoint := range []string{"/", "/usr", "/etc"} {
		opts := f.sh("awk '$2==\"" + mountpoint + "\"{print $4}' /proc/mounts")
		for _, o := range []string{"ro", "nosuid", "nodev"} {
			if !strings.Contains(","+strings.TrimSpace(opts)+",", ","+o+",") {
				t.Errorf("%s is mounted %s", mountpoint, opts)
			}
		}
	}
}

func TestInitCannotBeInspected(t *testing.T) {
	f := newFixture(t, Options{})
	for _, script := range []string{
		"cat /proc/1/environ", "ls /proc/1/fd/", "readlink /proc/1/exe", "ls /proc/1/root/", "cat /proc/1/maps", "readlink /proc/1/cwd", "cat /proc/1/mem",
	} {
		stdout, _, out, err := f.try(nil, "/bin/sh", "-c", script)
		if err != nil || out.Code == 0 || stdout != "" {
			t.Errorf("%s: code %d, %q, %v", script, out.Code, stdout, err)
		}
	}
}

func TestDevicesAndProc(t *testing.T) {
	f := newFixture(t, Options{})
	want(t, "/dev", f.sh("ls /dev"), "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero")
	f.sh("echo x > /dev/null; head -c 3 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c; echo > /dev/shm/x && ! echo x > /dev/full")
	want(t, "links", f.sh("echo out > /dev/stdout; echo err 2>/dev/null > /dev/stderr; echo fd > /dev/fd/1"), "out\nfd")
	want(t, "/etc", f.sh("grep -c . /etc/passwd; grep localhost /etc/hosts | head -1; cat /etc/resolv.conf; grep -E 'passwd|hosts' /etc/nsswitch.conf; ls -d /etc/ssl"),
		"3\n127.0.0.1 localhost testcell\n# This cell has no network.\npasswd: files\nhosts: files dns files\n/etc/ssl")
	want(t, "proc", f.sh("awk '$2==\"/proc\"{print $4}' /proc/mounts | cut -d, -f1-4; cat /proc/1/comm | wc -l"), "rw,nosuid,nodev,noexec\n1")
	want(t, "pts", f.sh("ls /dev/pts"), "ptmx")
}

func TestOwnersAndWhiteouts(t *testing.T) {
	f := newFixture(t, Options{})
	testOwners(t, f, expectedMountAPI(t))
}

// expectedMountAPI is how this kernel makes overlays: of descriptors since 6.13,
// of those of id-mapped layers, which a root caller has, since 6.15.
func expectedMountAPI(t *testing.T) string {
	t.Helper()
	var major, minor int
	if _, err := fmt.Sscanf(kernelRelease(), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	least := 13
	if os.Geteuid() == 0 {
		least = 15
	}
	if major > 6 || major == 6 && minor >= least {
		return mountByDescriptor
	}
	return mountByPath
}

func TestLegacyMounts(t *testing.T) {
	f := newFixture(t, Options{ForceLegacyMounts: true})
	testOwners(t, f, mountByPath)
}

func testOwners(t *testing.T, f *fixture, api string) {
	t.Helper()
	f.write("old", "old\n")
	f.write("gone", "gone\n")
	f.write("dir/inner", "inner\n")
	f.spec.Args = []string{"/bin/sh", "-c", `set -e
		stat -c '%U:%G' old .
		echo more >> old; echo new > new; rm gone; rm -r dir; mkdir dir; ln new hard; mkfifo fifo
		touch -d '2001-02-03T04:05:06.123456789Z' new
		stat -c '%U:%G %n' new old dir
		echo t > /tmp/t; stat -c %U /tmp/t; echo h > ~/h`}
	var o, e bytes.Buffer
	out, err := f.run(t.Context(), f.spec, driver.Stdio{Out: &o, Err: &e})
	if err != nil || out.Code != 0 {
		t.Fatalf("%+v, %v, %s", out, err, e.String())
	}
	want(t, "owners inside", o.String(), "sandbox:sandbox\nsandbox:sandbox\nsandbox:sandbox new\nsandbox:sandbox old\nsandbox:sandbox dir\nsandbox")
	if out.Controls.MountAPI != api {
		t.Errorf("mounts by %s", out.Controls.MountAPI)
	}
	degraded := slices.DeleteFunc(out.Controls.Degraded, func(what string) bool {
		return landlock.ABI() < fullLandlock && strings.HasPrefix(what, "landlock ABI ") // an older kernel's
	})
	if len(degraded) != 0 {
		t.Errorf("degraded: %q", degraded)
	}
	caller := uint32(os.Geteuid())
	for _, name := range []string{"new", "old", "dir", "fifo", "../tmp/t", "../home/h", "gone"} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(f.upper, name), &st); err != nil {
			t.Fatal(err)
		}
		if st.Uid != caller || st.Gid != uint32(os.Getegid()) {
			t.Errorf("%s belongs to %d:%d on disk", name, st.Uid, st.Gid)
		}
		if name == "gone" && (st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0) {
			t.Errorf("a deleted file left mode %o, device %d", st.Mode, st.Rdev)
		}
		if name == "new" && (st.Nlink != 2 || st.Mtim.Nsec != 123456789) {
			t.Errorf("new: %d links, %d ns", st.Nlink, st.Mtim.Nsec)
		}
	}
	if text, err := os.ReadFile(filepath.Join(f.base, "old")); err != nil || string(text) != "old\n" {
		t.Errorf("the lower layer changed: %q, %v", text, err)
	}
}

// Files of other owners keep them, in the cell and on disk.
func TestForeignOwners(t *testing.T) {
	f := newFixture(t, Options{})
	if os.Geteuid() != 0 {
		t.Skip("only root has files of several owners")
	}
	f.write("alice", "x")
	if err := os.Chown(f.base+"/alice", 1000, 1234); err != nil {
		t.Fatal(err)
	}
	want(t, "owner inside", f.sh("stat -c %u:%g alice; rm alice; echo 1 > alice; stat -c %u:%g alice"), "0:1234\n1000:1000")
}

func TestManyLayers(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		t.Run(fmt.Sprintf("legacy=%v", legacy), func(t *testing.T) {
			f := newFixture(t, Options{ForceLegacyMounts: legacy})
			dir := t.TempDir()
			var lower []string
			for i := range 200 {
				// Names that options would have to quote, and long ones.
				d := filepath.Join(dir, fmt.Sprintf("layer:%d,with\\all %s", i, strings.Repeat("x", 100)))
				if err := os.Mkdir(d, 0o755); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"same", fmt.Sprintf("f%d", i)} {
					if err := os.WriteFile(filepath.Join(d, name), []byte(fmt.Sprint(i)), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				lower = append(lower, d)
			}
			f.spec.Mounts.Overlays[0].Lower = lower
			want(t, "merged", f.sh("ls | wc -l; cat same f7 f199; echo > f199"), "201\n07199")
		})
	}
}

func TestMasksAndReadOnly(t *testing.T) {
	f := newFixture(t, Options{})
	f.write(".env", "SECRET=1\n")
	f.write("keys/id", "secret\n")
	f.write("link-target", "x\n")
	if err := os.Symlink("link-target", f.base+"/link"); err != nil {
		t.Fatal(err)
	}
	tool := filepath.Join(t.TempDir(), "toolchain")
	if err := os.MkdirAll(tool+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tool+"/bin/hello", []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.spec.ReadOnly = []string{tool, tool + "/bin/hello"}
	f.spec.Mounts.Masks = []mount.Mask{
		{Target: f.ws + "/.env"},
		{Target: f.ws + "/keys", Dir: true},
		{Target: f.ws + "/absent"},
		{Target: f.ws + "/link"},
	}
	want(t, "masked", f.sh(`stat -c '%a %s %n' .env keys; ls -A keys 2>/dev/null; cat .env 2>/dev/null; echo x 2>/dev/null >.env; chmod 600 .env 2>/dev/null; rm .env 2>/dev/null; rm -r keys 2>/dev/null; ls absent 2>/dev/null; cat link 2>/dev/null; cat link-target; `+tool+"/bin/hello"),
		"0 0 .env\n0 40 keys\nx\nhello")
	_, _, out, err := f.try(nil, "/bin/sh", "-c", "echo > "+tool+"/x")
	if err != nil || out.Code == 0 {
		t.Error("a read-only path can be written")
	}
	if text, err := os.ReadFile(f.base + "/.env"); err != nil || string(text) != "SECRET=1\n" {
		t.Errorf("the masked file: %q, %v", text, err)
	}
	if exists(f.upper + "/absent") {
		t.Error("a mask made its target")
	}
}

func TestWorkspaceTargets(t *testing.T) {
	f := newFixture(t, Options{})
	f.write("here", "")
	// Below the private /tmp, and deep.
	f.spec.Mounts.Overlays[0].Target = "/tmp/a/b/c"
	f.spec.Workdir = "/tmp/a/b/c"
	want(t, "in /tmp", f.sh("ls; pwd -P"), "here\n/tmp/a/b/c")
	f.spec.Mounts.Overlays[0].Target = "/usr/no-such-directory/x"
	_, _, _, err := f.try(nil, "true")
	var se *driver.StartError
	if !errors.As(err, &se) || !errors.Is(err, unix.EROFS) || !strings.Contains(se.Step, "/usr/no-such-directory/x") {
		t.Errorf("a target in a read-only directory: %v", err)
	}
	f.spec.Mounts.Overlays[0].Target = f.ws
	f.spec.Mounts.Overlays[0].Upper += "-missing"
	if _, _, _, err := f.try(nil, "true"); !errors.As(err, &se) || !errors.Is(err, unix.ENOENT) {
		t.Errorf("a missing upper directory: %v", err)
	}
}

// A writable bind is how the delta backend shows the real directory.
func TestOwnedBind(t *testing.T) {
	f := newFixture(t, Options{})
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/file", []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.spec.Mounts.Overlays = f.spec.Mounts.Overlays[1:]
	f.spec.Mounts.Binds = append(f.spec.Mounts.Binds, mount.Bind{Target: dir, Source: dir, Owned: true})
	f.spec.Workdir = dir
	want(t, "bind", f.sh("stat -c %U file; echo b >> file; cat file; echo > new"), "sandbox\na\nb")
	var st unix.Stat_t
	if err := unix.Stat(dir+"/new", &st); err != nil || int(st.Uid) != os.Geteuid() {
		t.Errorf("new file: uid %d, %v", st.Uid, err)
	}
}

func TestUnreadableFiles(t *testing.T) {
	f := newFixture(t, Options{})
	f.write("locked", "data\n")
	f.write("shut/file", "data\n")
	for _, name := range []string{"locked", "shut"} {
		if err := os.Chmod(f.base+"/"+name, 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(f.base+"/shut", 0o755) })
	want(t, "unreadable", f.sh("! cat locked 2>/dev/null; chmod 644 locked; cat locked; chmod 755 shut; cat shut/file"), "data\ndata")
}

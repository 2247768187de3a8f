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

	"github.com/forkcell/forkcell/internal/sandbox/kernel/landlock"
	"github.com/forkcell/forkcell/internal/storage/mount"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/drivertest"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
)

func TestIdentity(t *testing.T) {
	f := newFixture(t, Options{})
	id := callerIdentity()
	drivertest.Want(t, "user", f.Shell("id -u; id -g; id -un; id -gn; echo ~sandbox"),
		fmt.Sprintf("%d\n%d\nsandbox\nsandbox\n/home/sandbox", id.UID, id.GID))
	if id.Root {
		drivertest.Want(t, "groups", f.Shell("id -G"), "1000")
	}
	status := f.Shell("grep -E '^(Cap...|NoNewPrivs):' /proc/self/status | tr -d '\\t'")
	drivertest.Want(t, "privileges", status, strings.ReplaceAll("CapInh:0\nCapPrm:0\nCapEff:0\nCapBnd:0\nCapAmb:0\n", ":0", ":0000000000000000")+"NoNewPrivs:1")
	// A new session, whose leader is the command, below pid 1.
	drivertest.Want(t, "process", f.Shell("read a b c ppid pgrp session rest < /proc/$$/stat; echo $ppid; test $session = $$ && test $pgrp = $$ && echo leader"), "1\nleader")
}

func TestNamespaces(t *testing.T) {
	f := newFixture(t, Options{})
	out := f.Shell("for n in user mnt pid ipc uts net cgroup; do readlink /proc/self/ns/$n; done")
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
	drivertest.Want(t, "interfaces", f.Shell("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"), "lo")
	// The list is whole before it is counted: in a pipe, grep may start after ls has ended.
	drivertest.Want(t, "processes", f.Shell("set -- /proc/[0-9]*; echo $#"), "2") // init and sh
}

func TestHostIsAbsent(t *testing.T) {
	f := newFixture(t, Options{})
	root := f.Shell("ls -A /")
	allowed := map[string]bool{"dev": true, "etc": true, "home": true, "proc": true, "src": true, "tmp": true}
	for _, name := range cellinit.SystemNames() {
		allowed[name] = true
	}
	for _, name := range strings.Fields(root) {
		if !allowed[name] {
			t.Errorf("/%s is visible", name)
		}
	}
	drivertest.Want(t, "above the root", f.Shell("ls -A /.."), root)
	drivertest.Want(t, "mounts on the root", f.Shell("awk '$2==\"/\"' /proc/mounts | wc -l; cut -d' ' -f2 /proc/mounts | sort | uniq -d"), "1")
	drivertest.Want(t, "homes", f.Shell("ls -A /home"), "sandbox")
	drivertest.Want(t, "/tmp", f.Shell("ls -A /tmp"), "")
	for _, path := range []string{"/usr/x", "/etc/x", "/x", "/dev/x", "/home/x", "/src/x", "/etc/passwd", "/bin/sh", "/dev/null.x"} {
		_, stderr, out, err := f.Try(nil, "/bin/sh", "-c", "echo >> "+path)
		if err != nil || out.Code == 0 {
			t.Errorf("%s can be written: %v %q", path, err, stderr)
		}
	}
	for _, mountpoint := range []string{"/", "/usr", "/etc"} {
		opts := f.Shell("awk '$2==\"" + mountpoint + "\"{print $4}' /proc/mounts")
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
		stdout, _, out, err := f.Try(nil, "/bin/sh", "-c", script)
		if err != nil || out.Code == 0 || stdout != "" {
			t.Errorf("%s: code %d, %q, %v", script, out.Code, stdout, err)
		}
	}
}

func TestDevicesAndProc(t *testing.T) {
	f := newFixture(t, Options{})
	drivertest.Want(t, "/dev", f.Shell("ls /dev"), "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero")
	f.Shell("echo x > /dev/null; head -c 3 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c; echo > /dev/shm/x && ! echo x > /dev/full")
	drivertest.Want(t, "links", f.Shell("echo out > /dev/stdout; echo err 2>/dev/null > /dev/stderr; echo fd > /dev/fd/1"), "out\nfd")
	drivertest.Want(t, "/etc", f.Shell("grep -c . /etc/passwd; grep localhost /etc/hosts | head -1; cat /etc/resolv.conf; grep -E 'passwd|hosts' /etc/nsswitch.conf; ls -d /etc/ssl"),
		"3\n127.0.0.1 localhost testcell\n# This cell has no network.\npasswd: files\nhosts: files dns files\n/etc/ssl")
	own := strings.TrimSpace(f.Shell("cat /etc/machine-id"))
	host, err := os.ReadFile("/etc/machine-id")
	if len(own) != 32 || err == nil && own == strings.TrimSpace(string(host)) {
		t.Errorf("machine id %q", own)
	}
	drivertest.Want(t, "proc", f.Shell("awk '$2==\"/proc\"{print $4}' /proc/mounts | cut -d, -f1-4; cat /proc/1/comm | wc -l"), "rw,nosuid,nodev,noexec\n1")
	drivertest.Want(t, "pts", f.Shell("ls /dev/pts"), "ptmx")
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
		return mountfd.MountByDescriptor
	}
	return mountfd.MountByPath
}

func TestLegacyMounts(t *testing.T) {
	f := newFixture(t, Options{ForceLegacyMounts: true})
	testOwners(t, f, mountfd.MountByPath)
}

func testOwners(t *testing.T, f *fixture, api string) {
	t.Helper()
	f.Write("old", "old\n")
	f.Write("gone", "gone\n")
	f.Write("dir/inner", "inner\n")
	f.Spec.Args = []string{"/bin/sh", "-c", `set -e
		stat -c '%U:%G' old .
		echo more >> old; echo new > new; rm gone; rm -r dir; mkdir dir; ln new hard; mkfifo fifo
		touch -d '2001-02-03T04:05:06.123456789Z' new
		stat -c '%U:%G %n' new old dir
		echo t > /tmp/t; stat -c %U /tmp/t; echo h > ~/h`}
	var o, e bytes.Buffer
	out, err := f.Run(t.Context(), f.Spec, driver.Stdio{Out: &o, Err: &e})
	if err != nil || out.Code != 0 {
		t.Fatalf("%+v, %v, %s", out, err, e.String())
	}
	drivertest.Want(t, "owners inside", o.String(), "sandbox:sandbox\nsandbox:sandbox\nsandbox:sandbox new\nsandbox:sandbox old\nsandbox:sandbox dir\nsandbox")
	if out.Controls.MountAPI != api {
		t.Errorf("mounts by %s", out.Controls.MountAPI)
	}
	degraded := slices.DeleteFunc(out.Controls.Degraded, func(what string) bool {
		return landlock.ABI() < cellinit.FullLandlock && strings.HasPrefix(what, "landlock ABI ") // an older kernel's
	})
	if len(degraded) != 0 {
		t.Errorf("degraded: %q", degraded)
	}
	caller := uint32(os.Geteuid())
	for _, name := range []string{"new", "old", "dir", "fifo", "../tmp/t", "../home/h", "gone"} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(f.Upper, name), &st); err != nil {
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
	if text, err := os.ReadFile(filepath.Join(f.Base, "old")); err != nil || string(text) != "old\n" {
		t.Errorf("the lower layer changed: %q, %v", text, err)
	}
}

// Files of other owners keep them, in the cell and on disk.
func TestForeignOwners(t *testing.T) {
	f := newFixture(t, Options{})
	if os.Geteuid() != 0 {
		t.Skip("only root has files of several owners")
	}
	f.Write("alice", "x")
	if err := os.Chown(f.Base+"/alice", 1000, 1234); err != nil {
		t.Fatal(err)
	}
	drivertest.Want(t, "owner inside", f.Shell("stat -c %u:%g alice; rm alice; echo 1 > alice; stat -c %u:%g alice"), "0:1234\n1000:1000")
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
			f.Spec.Mounts.Overlays[0].Lower = lower
			drivertest.Want(t, "merged", f.Shell("ls | wc -l; cat same f7 f199; echo > f199"), "201\n07199")
		})
	}
}

func TestMasksAndReadOnly(t *testing.T) {
	f := newFixture(t, Options{})
	f.Write(".env", "SECRET=1\n")
	f.Write("keys/id", "secret\n")
	f.Write("link-target", "x\n")
	if err := os.Symlink("link-target", f.Base+"/link"); err != nil {
		t.Fatal(err)
	}
	tool := filepath.Join(t.TempDir(), "toolchain")
	if err := os.MkdirAll(tool+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tool+"/bin/hello", []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.Spec.ReadOnly = []string{tool, tool + "/bin/hello"}
	f.Spec.Mounts.Masks = []mount.Mask{
		{Target: f.Workspace + "/.env"},
		{Target: f.Workspace + "/keys", Dir: true},
		{Target: f.Workspace + "/absent"},
		{Target: f.Workspace + "/link"},
	}
	drivertest.Want(t, "masked", f.Shell(`stat -c '%a %s %n' .env keys; ls -A keys 2>/dev/null; cat .env 2>/dev/null; echo x 2>/dev/null >.env; chmod 600 .env 2>/dev/null; rm .env 2>/dev/null; rm -r keys 2>/dev/null; ls absent 2>/dev/null; cat link 2>/dev/null; cat link-target; `+tool+"/bin/hello"),
		"0 0 .env\n0 40 keys\nx\nhello")
	_, _, out, err := f.Try(nil, "/bin/sh", "-c", "echo > "+tool+"/x")
	if err != nil || out.Code == 0 {
		t.Error("a read-only path can be written")
	}
	if text, err := os.ReadFile(f.Base + "/.env"); err != nil || string(text) != "SECRET=1\n" {
		t.Errorf("the masked file: %q, %v", text, err)
	}
	if exists(f.Upper + "/absent") {
		t.Error("a mask made its target")
	}
}

func TestWorkspaceTargets(t *testing.T) {
	f := newFixture(t, Options{})
	f.Write("here", "")
	// Below the private /tmp, and deep.
	f.Spec.Mounts.Overlays[0].Target = "/tmp/a/b/c"
	f.Spec.Workdir = "/tmp/a/b/c"
	drivertest.Want(t, "in /tmp", f.Shell("ls; pwd -P"), "here\n/tmp/a/b/c")
	f.Spec.Mounts.Overlays[0].Target = "/usr/no-such-directory/x"
	_, _, _, err := f.Try(nil, "true")
	var se *driver.StartError
	if !errors.As(err, &se) || !errors.Is(err, unix.EROFS) || !strings.Contains(se.Step, "/usr/no-such-directory/x") {
		t.Errorf("a target in a read-only directory: %v", err)
	}
	f.Spec.Mounts.Overlays[0].Target = f.Workspace
	f.Spec.Mounts.Overlays[0].Upper += "-missing"
	if _, _, _, err := f.Try(nil, "true"); !errors.As(err, &se) || !errors.Is(err, unix.ENOENT) {
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
	f.Spec.Mounts.Overlays = f.Spec.Mounts.Overlays[1:]
	f.Spec.Mounts.Binds = append(f.Spec.Mounts.Binds, mount.Bind{Target: dir, Source: dir, Owned: true})
	f.Spec.Workdir = dir
	drivertest.Want(t, "bind", f.Shell("stat -c %U file; echo b >> file; cat file; echo > new"), "sandbox\na\nb")
	var st unix.Stat_t
	if err := unix.Stat(dir+"/new", &st); err != nil || int(st.Uid) != os.Geteuid() {
		t.Errorf("new file: uid %d, %v", st.Uid, err)
	}
}

func TestUnreadableFiles(t *testing.T) {
	f := newFixture(t, Options{})
	f.Write("locked", "data\n")
	f.Write("shut/file", "data\n")
	for _, name := range []string{"locked", "shut"} {
		if err := os.Chmod(f.Base+"/"+name, 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(f.Base+"/shut", 0o755) })
	drivertest.Want(t, "unreadable", f.Shell("! cat locked 2>/dev/null; chmod 644 locked; cat locked; chmod 755 shut; cat shut/file"), "data\ndata")
}

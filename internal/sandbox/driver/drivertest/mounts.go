package drivertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/mount"
)

// testWorkspace: changes go to the upper directory, and the lower one stays.
func testWorkspace(t *testing.T, f *Fixture) {
	f.Write("kept", "one\n")
	f.Write("gone", "two\n")
	f.Shell("cat kept gone; echo more >> kept; rm gone; mkdir d; echo new > d/file; echo home > ~/file; echo tmp > /tmp/file")
	for name, want := range map[string]string{
		filepath.Join(f.Base, "kept"): "one\n", filepath.Join(f.Base, "gone"): "two\n",
		filepath.Join(f.Upper, "kept"): "one\nmore\n", filepath.Join(f.Upper, "d/file"): "new\n",
		filepath.Join(f.Shared, "file"): "tmp\n",
	} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := os.ReadFile(filepath.Join(f.Upper, "gone")); err == nil {
		t.Error("a file that was removed can be read")
	}
}

// testAbsent: what is absent is not seen, and cannot be made. A directory with
// absent paths can be removed, and moved as between file systems.
func testAbsent(t *testing.T, f *Fixture) {
	f.Write(".mcp.json", "servers\n")
	f.Write("sub/.claude/settings.json", "hooks\n")
	f.Write("kept/file", "kept\n")
	paths := []string{".claude", ".mcp.json", "sub/.claude"}
	if err := os.Mkdir(filepath.Join(f.Upper, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if err := unix.Mknod(filepath.Join(f.Upper, p), unix.S_IFCHR, 0); err != nil {
			t.Fatal(err)
		}
	}
	f.Spec.Mounts.Absent = []mount.Absence{{Target: f.Workspace, Upper: f.Upper, Paths: paths}}
	out := f.Shell(`ls -A . sub; mkdir d; for p in .claude .mcp.json sub/.claude; do
cat $p; test -e $p && echo there; mkdir $p && echo mkdir; echo x > $p && echo write; ln -s kept $p && echo symlink
ln kept/file $p && echo link; mkfifo $p && echo fifo; mv -T d $p && echo move; touch e; mv -T e $p && echo move; mv -T --exchange kept $p && echo exchange
done 2>/dev/null; mv sub other; find other`)
	Want(t, "what the cell can do", out, ".:\nkept\nsub\n\nsub:\nother")
	for _, p := range paths[:2] {
		info, err := os.Lstat(filepath.Join(f.Upper, p))
		if err != nil || info.Mode()&os.ModeCharDevice == 0 {
			t.Errorf("%s: %v, %v", p, info, err)
		}
	}
}

// testMasks: what is masked is empty, and what is fixed cannot be written.
func testMasks(t *testing.T, f *Fixture) {
	f.Write("secret", "s3cret\n")
	f.Write("dir/secret", "s3cret\n")
	f.Write("fixed/file", "fixed\n")
	f.Spec.Mounts.Masks = []mount.Mask{
		{Target: f.Workspace + "/secret"}, {Target: f.Workspace + "/dir", Dir: true},
	}
	f.Spec.Mounts.Fixed = []string{f.Workspace + "/fixed"}
	out := f.Shell("cat secret 2>&1; ls -A dir 2>&1; echo x > fixed/file; echo x > secret; cat fixed/file; true")
	if strings.Contains(out, "s3cret") || !strings.Contains(out, "fixed") {
		t.Errorf("output %q", out)
	}
}

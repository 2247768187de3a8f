package drivertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/mount"
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

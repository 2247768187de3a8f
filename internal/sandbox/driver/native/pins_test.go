package native

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver/drivertest"
	"github.com/forkcell/forkcell/internal/storage/mount"
)

// TestPins: directories above a mask keep their names, and are otherwise what
// they were.
func TestPins(t *testing.T) {
	f := newFixture(t, Options{})
	f.Write("a/b/c/secret", "SECRET\n")
	f.Write("a/b/other", "other\n")
	f.Write("a/b/shown/file", "hidden by a bind\n")
	f.Write("free/x", "x\n")
	f.Write("bound", "bound\n")
	// The directory itself, as a live one is, and in it something of its own.
	f.Spec.Mounts.Overlays = f.Spec.Mounts.Overlays[1:]
	f.Spec.Mounts.Binds = append(f.Spec.Mounts.Binds,
		mount.Bind{Target: f.Workspace, Source: f.Base, Owned: true},
		mount.Bind{Target: f.Workspace + "/a/b/shown/file", Source: f.Base + "/bound", ReadOnly: true})
	f.Spec.Mounts.Pins = []string{f.Workspace + "/a", f.Workspace + "/a/b", f.Workspace + "/a/b/c", f.Workspace + "/absent"}
	f.Spec.Mounts.Masks = []mount.Mask{{Target: f.Workspace + "/a/b/c/secret"}}
	// Where the kernel refuses, mv tries to copy, as between file systems.
	script := `for d in a a/b a/b/c; do mv -T $d moved 2>/dev/null && echo moved $d; rm -rf moved; rmdir $d 2>/dev/null; mv -T --exchange $d free 2>/dev/null && echo exchanged $d; done
mv -T free a 2>/dev/null && echo replaced
cat a/b/c/secret 2>/dev/null
cat a/b/other a/b/shown/file; echo x 2>/dev/null >a/b/shown/file && echo written
echo new >a/b/c/new && mv a/b/c/new a/b/c/newer && mv a/b/c/newer . && cat newer && rm newer a/b/other && mv free freed && stat -c %U freed a a/b a/b/c`
	user := "sandbox"
	if os.Geteuid() != 0 {
		user = strings.TrimSpace(f.Shell("id -un"))
	}
	drivertest.Want(t, "pinned", f.Shell(script), "other\nbound\nnew\n"+strings.Repeat(user+"\n", 4))
	if exists(f.Base+"/a/b/other") || !exists(f.Base+"/freed/x") || !exists(f.Base+"/a/b/c/secret") {
		t.Error("the cell did not work in the directory itself")
	}
	f.Spec.Mounts.Pins = nil
	drivertest.Want(t, "not pinned", f.Shell("mv a moved && cat moved/b/c/secret 2>/dev/null; ls moved"), "b")
}

// TestManyPins: a deep and a wide set.
func TestManyPins(t *testing.T) {
	f := newFixture(t, Options{})
	f.Spec.Mounts.Overlays = f.Spec.Mounts.Overlays[1:]
	f.Spec.Mounts.Binds = append(f.Spec.Mounts.Binds, mount.Bind{Target: f.Workspace, Source: f.Base, Owned: true})
	hide := func(dir string) {
		f.Write(dir+"/secret", "SECRET\n")
		f.Spec.Mounts.Masks = append(f.Spec.Mounts.Masks, mount.Mask{Target: f.Workspace + "/" + dir + "/secret"})
		f.Spec.Mounts.Pins = append(f.Spec.Mounts.Pins, f.Workspace+"/"+dir)
	}
	deep := "deep"
	for range 100 {
		hide(deep)
		deep += "/d"
	}
	for i := range 300 {
		hide(fmt.Sprintf("wide%d", i))
	}
	drivertest.Want(t, "seen", f.Shell("find . -name secret | wc -l; cat $(find . -name secret) 2>/dev/null | wc -l; for d in wide* deep; do mv $d x 2>/dev/null && echo moved $d; done; true"), "400\n0")
}

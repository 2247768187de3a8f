package native

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/mount"
)

// TestPins: directories above a mask keep their names, and are otherwise what
// they were.
func TestPins(t *testing.T) {
	f := newFixture(t, Options{})
	f.write("a/b/c/secret", "SECRET\n")
	f.write("a/b/other", "other\n")
	f.write("a/b/shown/file", "hidden by a bind\n")
	f.write("free/x", "x\n")
	f.write("bound", "bound\n")
	// The directory itself, as a live one is, and in it something of its own.
	f.spec.Mounts.Overlays = f.spec.Mounts.Overlays[1:]
	f.spec.Mounts.Binds = append(f.spec.Mounts.Binds,
		mount.Bind{Target: f.ws, Source: f.base, Owned: true},
		mount.Bind{Target: f.ws + "/a/b/shown/file", Source: f.base + "/bound", ReadOnly: true})
	f.spec.Mounts.Pins = []string{f.ws + "/a", f.ws + "/a/b", f.ws + "/a/b/c", f.ws + "/absent"}
	f.spec.Mounts.Masks = []mount.Mask{{Target: f.ws + "/a/b/c/secret"}}
	// Where the kernel refuses, mv tries to copy, as between file systems.
	script := `for d in a a/b a/b/c; do mv -T $d moved 2>/dev/null && echo moved $d; rm -rf moved; rmdir $d 2>/dev/null; mv -T --exchange $d free 2>/dev/null && echo exchanged $d; done
mv -T free a 2>/dev/null && echo replaced
cat a/b/c/secret 2>/dev/null
cat a/b/other a/b/shown/file; echo x 2>/dev/null >a/b/shown/file && echo written
echo new >a/b/c/new && mv a/b/c/new a/b/c/newer && mv a/b/c/newer . && cat newer && rm newer a/b/other && mv free freed && stat -c %U freed a a/b a/b/c`
	user := "sandbox"
	if os.Geteuid() != 0 {
		user = strings.TrimSpace(f.sh("id -un"))
	}
	want(t, "pinned", f.sh(script), "other\nbound\nnew\n"+strings.Repeat(user+"\n", 4))
	if exists(f.base+"/a/b/other") || !exists(f.base+"/freed/x") || !exists(f.base+"/a/b/c/secret") {
		t.Error("the cell did not work in the directory itself")
	}
	f.spec.Mounts.Pins = nil
	want(t, "not pinned", f.sh("mv a moved && cat moved/b/c/secret 2>/dev/null; ls moved"), "b")
}

// TestManyPins: a deep and a wide set.
func TestManyPins(t *testing.T) {
	f := newFixture(t, Options{})
	f.spec.Mounts.Overlays = f.spec.Mounts.Overlays[1:]
	f.spec.Mounts.Binds = append(f.spec.Mounts.Binds, mount.Bind{Target: f.ws, Source: f.base, Owned: true})
	hide := func(dir string) {
		f.write(dir+"/secret", "SECRET\n")
		f.spec.Mounts.Masks = append(f.spec.Mounts.Masks, mount.Mask{Target: f.ws + "/" + dir + "/secret"})
		f.spec.Mounts.Pins = append(f.spec.Mounts.Pins, f.ws+"/"+dir)
	}
	deep := "deep"
	for range 100 {
		hide(deep)
		deep += "/d"
	}
	for i := range 300 {
		hide(fmt.Sprintf("wide%d", i))
	}
	want(t, "seen", f.sh("find . -name secret | wc -l; cat $(find . -name secret) 2>/dev/null | wc -l; for d in wide* deep; do mv $d x 2>/dev/null && echo moved $d; done; true"), "400\n0")
}

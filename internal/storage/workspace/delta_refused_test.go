package workspace

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSealLive seals a live directory with entries that cannot be kept, removes
// those, and switches back.
func TestSealLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, BackendDelta)
	play(t, actorJob{Dir: w.src, Acts: []act{
		{Do: "mkdir", Path: p("d")},
		{Do: "write", Path: p("d/same"), Data: p("1")},
		{Do: "write", Path: p("f"), Data: p("1")},
	}})
	base, _ := w.imports()
	was := see(t, w.src)
	work := w.begin(w.c, base.Layer)
	w.acts(work, act{Do: "write", Path: p("f"), Data: p("2")}, act{Do: "write", Path: p("g"), Data: p("3")})
	w.must(os.Chmod(w.src+"/d/same", 0o400))
	w.must(os.Chmod(w.src+"/d", 0o500))
	want := see(t, w.src)
	w.spoil()
	_, err := work.Seal(context.Background())
	var u *UnsealableError
	if !errors.As(err, &u) {
		t.Fatalf("seal: %v", err)
	}

	one, refused, err := work.SealLive(context.Background(), w.op())
	w.must(err)
	slices.SortFunc(refused, func(a, b RefusedEntry) int { return strings.Compare(a.Path, b.Path) })
	attr := "user.overlay.redirect"
	if list := []RefusedEntry{{Path: "d/dev"}, {"d/same", attr}, {"f", attr}}; !slices.Equal(refused, list) {
		t.Errorf("refused %+v, want %+v", refused, list)
	}
	w.must(w.s.RemoveRefused(w.c, append(refused, RefusedEntry{Path: "f"}, RefusedEntry{Path: "gone"}, RefusedEntry{"f/x", attr})))
	sameItems(t, "cleared", want, see(t, w.src))
	w.check("sealed", one.Layer, want)
	w.switches(one, base, was)

	// After a crash the next process finds the generation as it was.
	w.must(w.s.Switch(context.Background(), w.c, base.Layer, one.Layer, w.op()))
	again, err := work.Seal(context.Background())
	w.must(err)
	if again.Areas[AreaWorkspace] != one.Areas[AreaWorkspace] {
		t.Errorf("sealed again: %+v, not %+v", again, one)
	}
}

// spoil adds what cannot be kept, in places that nobody may write to, and leaves
// no other trace.
func (w *world) spoil() {
	w.t.Helper()
	for _, path := range []string{"/f", "/d/same", "/d"} {
		path = w.src + path
		var st unix.Stat_t
		w.must(unix.Lstat(path, &st))
		w.must(unix.Chmod(path, 0o700))
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			w.must(unix.Mknod(path+"/dev", unix.S_IFCHR|0o600, 0)) // a whiteout, which anyone may make
		} else {
			w.must(unix.Setxattr(path, "user.overlay.redirect", []byte("x"), 0))
		}
		w.must(unix.UtimesNano(path, []unix.Timespec{st.Atim, st.Mtim}))
		w.must(unix.Chmod(path, st.Mode&0o7777))
	}
}

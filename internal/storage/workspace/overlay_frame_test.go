package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// spares lists the spare frames.
func (w *world) spares() []string {
	w.T.Helper()
	return w.Names("spare")
}

// inode is that of a generation's directory.
func (w *world) inode(work *workspace.Work) uint64 {
	w.T.Helper()
	var st unix.Stat_t
	w.Must(unix.Stat(work.Dir(), &st))
	return st.Ino
}

// TestFrameIsUsedAgain: an unchanged generation leaves its frame to the next
// one, which finds nothing of it.
func TestFrameIsUsedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	base, _ := w.Import()
	first := w.Begin(w.Cell, base.Layer)
	w.Must(first.RecordInit([]byte("someone")))
	w.Must(os.WriteFile(filepath.Join(first.Dir(), "tmp", "left"), []byte("behind"), 0o600))
	w.Must(os.MkdirAll(filepath.Join(first.Dir(), "work", workspace.AreaHome, "work", "incompat", "volatile"), 0o700))
	sealed, err := first.Seal(context.Background())
	w.Must(err)
	if !sealed.Unchanged {
		t.Fatal("a generation in which nothing happened is sealed as changed")
	}
	w.Must(first.Discard())
	if got := w.spares(); len(got) != 1 {
		t.Fatalf("frames that wait: %q", got)
	}
	second := w.Begin(w.Cell, base.Layer)
	if !second.Framed() || len(w.spares()) != 0 {
		t.Errorf("the frame was not taken: %q wait", w.spares())
	}
	for _, dir := range []string{"tmp", "work/" + workspace.AreaHome, "work/" + workspace.AreaWorkspace, workspace.AreaHome, workspace.AreaWorkspace} {
		left, err := os.ReadDir(filepath.Join(second.Dir(), dir))
		if err != nil || len(left) > 0 {
			t.Errorf("%s holds %v, %v", dir, left, err)
		}
	}
	if record, err := second.InitRecord(); err != nil || record != nil {
		t.Errorf("the record of another: %q, %v", record, err)
	}
	// It is a generation like any other.
	w.Must(os.WriteFile(filepath.Join(second.Dir(), workspace.AreaWorkspace, "new"), []byte("new"), 0o600))
	sealed, err = second.Seal(context.Background())
	if err != nil || sealed.Unchanged {
		t.Errorf("%+v, %v", sealed, err)
	}
	if report, err := w.Store.Verify(context.Background(), w.Cell, sealed.Layer); err != nil {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestFrameThatIsNotEmpty: a frame in which a run left anything is not used
// again. This is checked at the end of the run and, because a power failure can
// bring something back, before the next use.
func TestFrameThatIsNotEmpty(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(dir string) error{
		"file":      func(dir string) error { return os.WriteFile(filepath.Join(dir, workspace.AreaHome, "x"), nil, 0o600) },
		"tmp":       func(dir string) error { return os.WriteFile(filepath.Join(dir, "tmp", "x"), nil, 0o600) },
		"attribute": func(dir string) error { return unix.Setxattr(filepath.Join(dir, "tmp"), "user.x", []byte("1"), 0) },
		"area": func(dir string) error {
			return unix.Setxattr(filepath.Join(dir, workspace.AreaWorkspace), "user.x", []byte("1"), 0)
		},
		"mode":  func(dir string) error { return os.Chmod(filepath.Join(dir, "tmp"), 0o700) },
		"flags": func(dir string) error { return setFlag(filepath.Join(dir, "tmp"), syncFlag) },
		"size":  func(dir string) error { return grow(filepath.Join(dir, workspace.AreaHome)) },
		"volatile": func(dir string) error {
			return os.MkdirAll(filepath.Join(dir, "work", workspace.AreaHome, "work"), 0o700)
		},
		"missing": func(dir string) error { return os.Remove(filepath.Join(dir, workspace.AreaHome)) },
		"more":    func(dir string) error { return os.Mkdir(filepath.Join(dir, "more"), 0o700) },
		"begun": func(dir string) error {
			return os.Rename(filepath.Join(dir, workspace.SpareMarker), filepath.Join(dir, workspace.GenerationMarker))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, workspace.BackendOverlay)
			base, _ := w.Import()
			w.Must(w.Begin(w.Cell, base.Layer).Discard())
			if err := spoil(filepath.Join(w.Home, workspace.SpareName(0))); errors.Is(err, errors.ErrUnsupported) {
				t.Skip("this file system has no such thing: ", err)
			} else if err != nil {
				t.Fatal(err)
			}
			second := w.Begin(w.Cell, base.Layer)
			if second.Framed() || len(w.spares()) != 0 {
				t.Error("the frame was taken all the same")
			}
			sealed, err := second.Seal(context.Background())
			if err != nil || !sealed.Unchanged {
				t.Errorf("%+v, %v", sealed, err)
			}
		})
	}
}

// syncFlag is FS_SYNC_FL, as of chattr +S.
const syncFlag = 0x8

func setFlag(dir string, flag int) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	old, err := unix.IoctlGetUint32(int(d.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return errors.ErrUnsupported
	}
	return unix.IoctlSetPointerInt(int(d.Fd()), unix.FS_IOC_SETFLAGS, int(old)|flag)
}

// grow makes a directory large and empty again, which some file systems show.
func grow(dir string) error {
	before, err := os.Stat(dir)
	if err != nil {
		return err
	}
	for i := range 500 {
		name := filepath.Join(dir, fmt.Sprintf("%0200d", i))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			return err
		}
		defer os.Remove(name)
	}
	after, err := os.Stat(dir)
	if err == nil && after.Size() == before.Size() {
		err = errors.ErrUnsupported
	}
	return err
}

// TestFrameOfAChange: the frame of a changed generation is removed.
func TestFrameOfAChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)
	w.Must(os.WriteFile(filepath.Join(work.Dir(), workspace.AreaWorkspace, "new"), nil, 0o600))
	w.Must(work.Discard())
	if got := w.spares(); len(got) != 0 {
		t.Errorf("frames that wait: %q", got)
	}
}

// TestFramesTogether: no two generations get the same frame, and the number of
// spare frames is bounded.
func TestFramesTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	base, _ := w.Import()
	const many = 3 * workspace.SpareCount
	works := make([]*workspace.Work, many)
	for range 3 {
		ops := make([]string, many)
		for i := range ops {
			ops[i] = w.Op()
		}
		var group sync.WaitGroup
		for i, op := range ops {
			group.Go(func() {
				work, err := w.Store.Begin(context.Background(), w.Cell, base.Layer, op)
				if err != nil {
					t.Error(err)
				}
				works[i] = work
			})
		}
		group.Wait()
		seen := map[uint64]bool{}
		for _, work := range works {
			seen[w.inode(work)] = true
		}
		if len(seen) != many {
			t.Errorf("%d directories for %d generations", len(seen), many)
		}
		for _, work := range works {
			group.Go(func() {
				if err := work.Discard(); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if got := w.spares(); len(got) != workspace.SpareCount {
			t.Errorf("frames that wait: %q", got)
		}
	}
	w.NoPending()
}

// TestRemount: the mark of a volatile overlay, with which the kernel refuses
// another mount, is removed.
func TestRemount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)
	scratch := filepath.Join(work.Dir(), "work", workspace.AreaWorkspace)
	w.Must(os.MkdirAll(filepath.Join(scratch, "work", "incompat", "volatile"), 0o700))
	w.Must(work.Remount())
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	w.Must(work.Discard())
}

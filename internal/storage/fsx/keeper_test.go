package fsx

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// deepTree makes directories in one another beneath d, each with a file, and
// returns how many.
func deepTree(t *testing.T, d *Dir, depth int, name string) {
	t.Helper()
	at, err := unix.Openat(d.fd, ".", unix.O_DIRECTORY, 0)
	check(t, err)
	for range depth {
		check(t, unix.Mkdirat(at, name, 0o700))
		next, err := unix.Openat(at, name, unix.O_DIRECTORY, 0)
		check(t, err)
		f, err := unix.Openat(next, "z", unix.O_CREAT|unix.O_WRONLY, 0o600)
		check(t, err)
		check(t, unix.Close(f))
		check(t, unix.Close(at))
		at = next
	}
	check(t, unix.Close(at))
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(names)
}

// TestWalkDeep visits a tree whose paths the kernel would not take, with few
// descriptors, and removes it.
func TestWalkDeep(t *testing.T) { //nolint:paralleltest // it counts the descriptors of the process
	d, _ := tempRoot(t)
	const depth = 2000
	deepTree(t, d, depth, "d")
	before, most := openDescriptors(t), 0
	entered, left, longest := 0, 0, 0
	err := Walk(t.Context(), d, Visitor{
		Enter: func(s *Step) (bool, error) {
			entered++
			longest = max(longest, len(s.Path()))
			if entered%100 == 0 {
				most = max(most, openDescriptors(t))
			}
			if s.Info.IsRegular() {
				return false, s.Dir().Chmod(s.Name, 0o640)
			}
			return true, nil
		},
		Leave: func(s *Step) error {
			left++
			return s.Dir().Chtimes(s.Name, Time{Sec: 5})
		},
	})
	check(t, err)
	if entered != 2*depth || left != depth || longest != 2*depth+1 {
		t.Errorf("%d entered, %d left, the longest path has %d bytes", entered, left, longest)
	}
	if most > before+2*keptOpen+8 {
		t.Errorf("%d descriptors were open, %d before", most, before)
	}
	info, err := d.Lstat(strings.Repeat("d/", depth-1) + "d")
	check(t, err)
	if info.MTime.Sec != 5 {
		t.Errorf("the deepest directory was not reached: %v", info.MTime)
	}
	check(t, d.RemoveAll("d"))
}

// TestKeeperFindsWhatWasReplaced: a directory that was closed and has become
// another one is not taken for the first.
func TestKeeperFindsWhatWasReplaced(t *testing.T) {
	t.Parallel()
	d, _ := tempRoot(t)
	k := NewKeeper(1)
	defer k.Close()
	root := k.Root(d)
	var refs []*Ref
	for _, name := range []string{"a", "b", "c", "e"} {
		check(t, d.Mkdir(name, 0o700))
		r := root.Child(name)
		_, err := r.Open()
		check(t, err)
		r.Release()
		refs = append(refs, r)
	}
	check(t, d.Rename("a", d, "old", 0))
	check(t, d.Mkdir("a", 0o700))
	if _, err := refs[0].Open(); !errors.Is(err, ErrMoved) {
		t.Errorf("opened again: %v", err)
	}
	if _, err := refs[1].Open(); err != nil {
		t.Errorf("the one that stayed: %v", err)
	}
}

// TestMessagesStayShort: an error about a deep path does not print all of it.
func TestMessagesStayShort(t *testing.T) {
	t.Parallel()
	d, _ := tempRoot(t)
	_, err := d.Lstat(strings.Repeat("directory/", 5000) + "x")
	if err == nil || len(err.Error()) > 1200 {
		t.Errorf("%d bytes: %.200v", len(err.Error()), err)
	}
}

package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
	"github.com/forkcell/forkcell/internal/storage/mount"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// ProbeOverlay tries, in a throw-away cell, whether dir can hold the layers of
// writable overlays: mount one, delete, make a directory over what was deleted,
// and find the kernel's marks of both in the upper layer. It leaves nothing
// behind.
func (n *Driver) ProbeOverlay(ctx context.Context, dir string) (err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("probe overlay: %w", err)
	}
	tmp, err := os.MkdirTemp(abs, ".forkcell-probe-")
	if err != nil {
		return fmt.Errorf("probe overlay: %w", err)
	}
	defer func() {
		// The kernel's own directory in there has no permissions at all.
		err = errors.Join(err, removeWork(filepath.Join(tmp, "work")), os.RemoveAll(tmp))
	}()
	o := mount.Overlay{
		Target: "/probe",
		Lower:  []string{filepath.Join(tmp, "lower")},
		Upper:  filepath.Join(tmp, "upper"),
		Work:   filepath.Join(tmp, "work"),
	}
	for _, d := range []string{o.Lower[0], o.Upper, o.Work, filepath.Join(o.Lower[0], cellinit.ProbeReplaced)} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return fmt.Errorf("probe overlay: %w", err)
		}
	}
	for _, f := range []string{cellinit.ProbeDeleted, cellinit.ProbeKept, cellinit.ProbeReplaced + "/inner"} {
		if err := os.WriteFile(filepath.Join(o.Lower[0], f), []byte("probe\n"), 0o644); err != nil {
			return fmt.Errorf("probe overlay: %w", err)
		}
	}
	if err := n.probe(ctx, mount.Set{Overlays: []mount.Overlay{o}}, o.Target); err != nil {
		return fmt.Errorf("probe overlay: %w", err)
	}
	if err := checkMarks(o.Upper, callerIdentity().Root); err != nil {
		return fmt.Errorf("probe overlay: %w", err)
	}
	return nil
}

// probe builds a cell and, if it has overlays, tries the one at dir.
func (n *Driver) probe(ctx context.Context, set mount.Set, dir string) error {
	s := driver.Spec{Hostname: "probe", Mounts: set}
	p, err := newPlan(s)
	if err != nil {
		return err
	}
	p.Probe = []byte(dir)
	cell, err := n.beginPlan(ctx, s, p, n.firstProcess)
	if err != nil {
		return err
	}
	return errors.Join(cell.awaitBuilt(ctx), cell.Close())
}

// checkMarks looks for what the overlay must have left in its upper directory.
func checkMarks(upper string, root bool) error {
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(upper, cellinit.ProbeDeleted), &st); err != nil {
		return fmt.Errorf("whiteout: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
		return errors.New("a deleted file left no whiteout")
	}
	name := "user.overlay.opaque"
	if root {
		name = "trusted.overlay.opaque"
	}
	buf := make([]byte, 8)
	k, err := unix.Lgetxattr(filepath.Join(upper, cellinit.ProbeReplaced), name, buf)
	if err != nil {
		return fmt.Errorf("attribute %s: %w", name, err)
	}
	if string(buf[:k]) != "y" {
		return fmt.Errorf("attribute %s is %q", name, buf[:k])
	}
	return nil
}

// removeWork removes what the kernel made in the work directory of an overlay,
// with modes that keep an ordinary user out of its own files.
func removeWork(dir string) error {
	for _, name := range []string{"work", "work/incompat", "work/incompat/volatile"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o700); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(dir, "work"))
}

package workspace

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// entry returns the manifest's entry for what the kernel reports.
func (sc *scan) entry(at site, info fsx.Info, kind tree.Kind, old *tree.Entry) tree.Entry {
	e := tree.Entry{Name: at.name, Kind: kind, Mode: info.Mode, MTime: info.MTime}
	if kind == tree.KindFile {
		e.Size, e.Layer = info.Size, sc.layer
	}
	if kind == tree.KindSymlink {
		e.Mode = 0o777 // the kernel's value; it cannot be set
	}
	sc.own(at, &e, info, old)
	return e
}

func (sc *scan) own(at site, e *tree.Entry, info fsx.Info, old *tree.Entry) {
	e.UID, e.GID = info.UID, info.GID
	if sc.owner != nil {
		sc.owner(at, e, old)
	}
}

func (sc *scan) sift(at site, all []fsx.Xattr) []fsx.Xattr {
	kept, _, refused, lost := sc.attrs.classify(all)
	if len(refused)+len(lost) > 0 {
		sc.found.attrs(at.path(), refused, lost)
	}
	return kept
}

// lostError returns errMoved for the errors of a name that is gone or has become
// something else.
func (sc *scan) lostError(err error) error {
	if err == nil {
		return nil
	}
	if sc.settle && (errors.Is(err, os.ErrNotExist) || errors.Is(err, fsx.ErrNotRegular) ||
		errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ELOOP) || errors.Is(err, fsx.ErrMoved)) {
		return errMoved
	}
	return fmt.Errorf("read: %w", err)
}

// hasChanged reports whether a file changed between two looks at it.
func hasChanged(a, b fsx.Info) bool {
	return a.Ino != b.Ino || a.Dev != b.Dev || a.Type != b.Type || a.Size != b.Size || a.MTime != b.MTime || a.CTime != b.CTime
}

func deviceName(info fsx.Info) string {
	kind := "block"
	if info.Type == unix.S_IFCHR {
		kind = "character"
	}
	return fmt.Sprintf("%s device %d:%d", kind, unix.Major(info.Rdev), unix.Minor(info.Rdev))
}

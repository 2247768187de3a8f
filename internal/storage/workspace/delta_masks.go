package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

// mask is a path in a live directory that the cell must not see.
type mask struct {
	path string
	// holds is the number of directories above it that must keep their names:
	// if the path could be moved, no rule would match it any more, and the next
	// run would see it.
	holds int
	// info is the state of the path when the generation began.
	info fsx.Info
}

// fileID identifies a file that may have been moved. A new file can get the inode
// number of a removed one, so time and size count too.
type fileID struct {
	inode
	mtime fsx.Time
	size  int64
}

func fileIDOf(info fsx.Info) fileID {
	return fileID{inode{info.Dev, info.Ino}, info.MTime, info.Size}
}

// hiddenRule is the reason that is reported for a masked file under another name.
const hiddenRule = "left out under another name when the run began"

// findMasks lists the paths of a delta cell's directory that the cell must not
// see, and those that it must not write to: the kernel removes a set-id bit when a
// file is written, but not when it is written through a memory mapping.
func (w *Work) findMasks(ctx context.Context) error {
	live, err := fsx.OpenRoot(w.c.Live)
	if err != nil {
		return err
	}
	defer live.Close()
	f := &maskFinder{filter: keepOnly(w.c.Rules, w.c.Kept), pinned: len(w.c.Kept) > 0 || w.c.Rules != nil && placeMatters(w.c.Rules)}
	err = f.find(ctx, live)
	w.masks, w.setID = f.masks, f.setID
	return err
}

// placeMatters reports whether a rule takes something back in one place only: a
// file that is left out elsewhere would become visible when it is moved there.
func placeMatters(rules *secretfiles.Rules) bool {
	return slices.ContainsFunc(rules.Patterns(), func(rule string) bool {
		text, negated := strings.CutPrefix(rule, "!")
		return negated && dirsOf(text) != 0
	})
}

// dirsOf returns the number of directories above a path that a rule names; a
// negative number means all of them.
func dirsOf(rule string) int {
	rest, anywhere := strings.CutPrefix(rule, "**/")
	rest = strings.TrimRight(rest, "/")
	n := strings.Count(rest, "/")
	if n == 0 || anywhere && !strings.Contains(rest, "**") {
		return n
	}
	return -1
}

type maskFinder struct {
	filter *secretfiles.Filter
	pinned bool // all directories above a mask keep their names
	// lenient skips directories that the caller may not read.
	lenient bool
	max     int // 0 means no limit
	masks   []mask
	setID   []string
}

// errTooManySecrets means that a cell cannot have enough mounts to hide all the
// files.
var errTooManySecrets = errors.New("too many secret files")

// Secret is a path that the secret rules leave out of a directory of the host.
type Secret struct {
	Path string // below the directory
	Dir  bool
}

// SecretsIn lists what rules leave out of a directory of the host, at most limit
// entries. It skips what the caller may not read: no cell of the caller may read
// it either.
func SecretsIn(dir string, rules *secretfiles.Rules, limit int) ([]Secret, error) {
	root, err := fsx.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f := &maskFinder{filter: keepOnly(rules, nil).Reading(root.OpenFile), lenient: true, max: limit}
	if err := f.find(context.Background(), root); err != nil {
		return nil, err
	}
	out := make([]Secret, len(f.masks))
	for i, m := range f.masks {
		out[i] = Secret{Path: m.path, Dir: m.info.IsDir()}
	}
	return out, nil
}

func (m *maskFinder) find(ctx context.Context, d *fsx.Dir) error {
	return fsx.Walk(ctx, d, fsx.Visitor{
		Enter: m.enter,
		Gone: func(err error) bool {
			return errors.Is(err, os.ErrNotExist) || m.lenient && errors.Is(err, os.ErrPermission)
		},
	})
}

func (m *maskFinder) enter(at *fsx.Step) (into bool, err error) {
	sub := at.Path()
	rule, v := m.decide(sub, at.Info)
	switch {
	case v == secretfiles.Leave && at.Info.IsSymlink():
		// A link cannot be a mount point, and holds no secret itself.
		return false, nil
	case v == secretfiles.Leave:
		m.add(sub, rule, at.Info)
		if m.max > 0 && len(m.masks) > m.max {
			return false, errTooManySecrets
		}
		return false, nil
	case at.Info.Type == unix.S_IFREG && at.Info.Mode&(unix.S_ISUID|unix.S_ISGID) != 0:
		m.setID = append(m.setID, sub)
	}
	return true, nil
}

// decide applies the filter; without a filter everything is kept.
func (m *maskFinder) decide(path string, info fsx.Info) (string, secretfiles.Verdict) {
	if m.filter == nil {
		return "", secretfiles.Keep
	}
	return m.filter.Decide(path, info.IsDir())
}

func (m *maskFinder) add(path, rule string, info fsx.Info) {
	k := mask{path: path, info: info}
	above := strings.Count(path, "/")
	if k.holds = dirsOf(rule); k.holds < 0 || k.holds > above || m.pinned {
		k.holds = above
	}
	m.masks = append(m.masks, k)
}

// mountMasks adds what is hidden, what cannot be written to, and the directories
// that must keep their names for it.
func (w *Work) mountMasks(set *mount.Set) {
	for _, p := range w.setID {
		set.Fixed = append(set.Fixed, path.Join(w.c.MountAt, p))
	}
	held := map[string]struct{}{}
	for _, m := range w.masks {
		set.Masks = append(set.Masks, mount.Mask{Target: path.Join(w.c.MountAt, m.path), Dir: m.info.IsDir()})
		up := path.Dir(m.path)
		for range m.holds {
			if _, done := held[up]; done {
				// Those above it may still be missing: another mask held fewer.
				up = path.Dir(up)
				continue
			}
			held[up] = struct{}{}
			set.Pins = append(set.Pins, path.Join(w.c.MountAt, up))
			up = path.Dir(up)
		}
	}
	slices.Sort(set.Pins) // a directory before what is in it
}

// hiddenFiles returns the files that were masked when the generation began. A file with
// several names is not among them: its other names may be no secret.
func (w *Work) hiddenFiles() map[fileID]struct{} {
	set := make(map[fileID]struct{}, len(w.masks))
	for _, m := range w.masks {
		if m.info.IsDir() || m.info.Nlink == 1 {
			set[fileIDOf(m.info)] = struct{}{}
		}
	}
	return set
}

// UncoveredPaths lists the masked paths that may have been replaced: the kernel removes
// a mask when the host replaces the file below it, and then the cell could see the
// new one. A file that was written in place stays masked but is listed too: its
// inode number alone does not distinguish it from a new file.
func (w *Work) UncoveredPaths() ([]string, error) {
	if len(w.masks) == 0 {
		return nil, nil
	}
	live, err := fsx.OpenRoot(w.c.Live)
	if err != nil {
		return nil, err
	}
	defer live.Close()
	var paths []string
	for _, m := range w.masks {
		info, err := live.Lstat(m.path)
		if err := ignoreMissing(err); err != nil {
			return nil, fmt.Errorf("check masked paths: %w", err)
		}
		same := info.Ino == m.info.Ino && info.Dev == m.info.Dev && (info.IsDir() || info.CTime == m.info.CTime)
		if err == nil && !same {
			paths = append(paths, m.path)
		}
	}
	return paths, nil
}

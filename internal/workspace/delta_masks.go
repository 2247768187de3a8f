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

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/mount"
)

// mask is something in a live directory that the cell must not see.
type mask struct {
	path string
	// holds is how many of the directories above it must keep their names: moved
	// from there, no rule would be about it any more, and the next run would see
	// it.
	holds int
	// info is what it was when the generation began.
	info fsx.Info
}

// face tells a file that was moved from one that got a number which had become
// free.
type face struct {
	inode
	mtime fsx.Time
	size  int64
}

func faceOf(info fsx.Info) face {
	return face{inode{info.Dev, info.Ino}, info.MTime, info.Size}
}

// hiddenRule is what is said of a masked file that is found under another name.
const hiddenRule = "left out under another name when the run began"

// findMasks lists what a delta cell must not see of its directory, and what it
// must not write to: the kernel takes a set-id bit off a file that is written,
// but not off one that is written through memory.
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

// placeMatters tells whether a rule takes something back in one place only: what
// is left out elsewhere would be seen when it is moved there.
func placeMatters(rules *leftout.Rules) bool {
	return slices.ContainsFunc(rules.Patterns(), func(stored string) bool {
		_, text, _ := strings.Cut(stored, ":")
		text, negated := strings.CutPrefix(text, "!")
		return negated && dirsOf(text) != 0
	})
}

// dirsOf is the number of directories above a path that a rule is about; a
// negative one stands for all of them.
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
	filter *leftout.Filter
	pinned bool // everything above a mask keeps its name
	// lenient passes over directories that the caller may not read.
	lenient bool
	max     int // 0 is no limit
	masks   []mask
	setID   []string
}

// errTooManySecrets means that more files would have to be hidden than a cell can
// have mounts for.
var errTooManySecrets = errors.New("too many of them")

// Secret is a path that the secret rules leave out of a directory of the host.
type Secret struct {
	Path string // below the directory
	Dir  bool
}

// SecretsIn lists what rules leave out of a directory of the host, at most limit
// entries. What the caller may not read is passed over: no cell of the caller
// may read it either.
func SecretsIn(dir string, rules *leftout.Rules, limit int) ([]Secret, error) {
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
	case v == leftout.Leave && at.Info.IsSymlink():
		// Nothing can be mounted on a link, and it holds no secret itself.
		return false, nil
	case v == leftout.Leave:
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

// decide is the filter's word; without a filter everything is kept.
func (m *maskFinder) decide(path string, info fsx.Info) (string, leftout.Verdict) {
	if m.filter == nil {
		return "", leftout.Keep
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

// mountMasks says what is hidden or cannot be written to, and which directories
// are held for it.
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
				// Those above it may be still missing: another mask held fewer.
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

// hidden are the files that were masked when the generation began. One with
// several names is not among them: its other names may be no secret.
func (w *Work) hidden() map[face]struct{} {
	set := make(map[face]struct{}, len(w.masks))
	for _, m := range w.masks {
		if m.info.IsDir() || m.info.Nlink == 1 {
			set[faceOf(m.info)] = struct{}{}
		}
	}
	return set
}

// Uncovered lists the masked paths at which something else may be by now: the
// kernel takes a mask away when the host replaces what is below it, and then the
// cell could see it. A file that was written in place, which stays masked, is
// listed too: its number alone would not tell it from a new one.
func (w *Work) Uncovered() ([]string, error) {
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
		if err := gone(err); err != nil {
			return nil, fmt.Errorf("look at what was masked: %w", err)
		}
		same := info.Ino == m.info.Ino && info.Dev == m.info.Dev && (info.IsDir() || info.CTime == m.info.CTime)
		if err == nil && !same {
			paths = append(paths, m.path)
		}
	}
	return paths, nil
}

package workspace

import (
	"slices"
	"strings"
	"sync"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

type inode struct{ dev, ino uint64 }

// linkSet collects the names of files that have more than one.
type linkSet struct {
	mu     sync.Mutex
	groups map[inode]*linkGroup
}

// linkGroup is one file with its names. The first goroutine that locks it reads
// the file; the others use the result.
type linkGroup struct {
	mu    sync.Mutex
	paths []string
	entry tree.Entry
}

func newLinkSet() *linkSet { return &linkSet{groups: map[inode]*linkGroup{}} }

// group returns the group of a file; nil if the file has one name.
func (l *linkSet) group(info fsx.Info) *linkGroup {
	if info.Nlink < 2 {
		return nil
	}
	key := inode{info.Dev, info.Ino}
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[key]
	if g == nil {
		g = &linkGroup{}
		l.groups[key] = g
	}
	return g
}

// drop removes the names below a directory that is read again.
func (l *linkSet) drop(dir string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.groups {
		g.mu.Lock()
		g.paths = slices.DeleteFunc(g.paths, func(p string) bool { return dir == "." || isInside(p, dir) })
		g.mu.Unlock()
	}
}

// links returns all groups of two and more names.
func (l *linkSet) links() tree.Links {
	l.mu.Lock()
	defer l.mu.Unlock()
	var groups [][]string
	for _, g := range l.groups {
		if len(g.paths) > 1 {
			groups = append(groups, slices.Sorted(slices.Values(g.paths)))
		}
	}
	return sortLinks(groups)
}

func sortLinks(groups [][]string) tree.Links {
	slices.SortFunc(groups, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return tree.Links{Groups: groups}
}

// touchedPaths is a set of paths that a generation replaced or removed, with everything
// that was below them.
type touchedPaths struct {
	mu    sync.Mutex
	whole map[string]struct{} // the path and all that was below it
}

func newTouched() *touchedPaths { return &touchedPaths{whole: map[string]struct{}{}} }

func (t *touchedPaths) add(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.whole[path] = struct{}{}
}

// has reports whether the older state's entry at path is gone.
func (t *touchedPaths) has(path string) bool {
	if _, ok := t.whole["."]; ok {
		return true
	}
	for p := path; ; {
		if _, ok := t.whole[p]; ok {
			return true
		}
		cut := strings.LastIndexByte(p, '/')
		if cut < 0 {
			return false
		}
		p = p[:cut]
	}
}

// mergeLinks makes the link table of a new state from that of the old one, the
// touched paths, and the groups among the new files. It also lists the names that
// no longer share a file with names that they shared it with, though both still
// exist.
func mergeLinks(old tree.Links, gone *touchedPaths, fresh tree.Links, present func(path string) bool) (_ tree.Links, split []string, same bool) {
	groups := fresh.Groups
	group := map[string]int{}
	for i, g := range groups {
		for _, p := range g {
			group[p] = i + 1
		}
	}
	same = len(fresh.Groups) == 0
	for _, g := range old.Groups {
		var stay, moved []string
		for _, p := range g {
			switch {
			case !gone.has(p):
				stay = append(stay, p)
			case present(p):
				moved = append(moved, p)
			}
		}
		if len(stay) == len(g) {
			groups = append(groups, g)
			continue
		}
		same = false
		if len(stay) > 1 {
			groups = append(groups, stay)
		}
		split = append(split, splitOf(stay, moved, group)...)
	}
	slices.Sort(split)
	return sortLinks(groups), split, same
}

// splitOf returns those of moved that lost at least one of their partners.
func splitOf(stay, moved []string, group map[string]int) []string {
	var split []string
	for i, p := range moved {
		lost := len(stay) > 0
		for j, q := range moved {
			if i != j && (group[p] == 0 || group[p] != group[q]) {
				lost = true
			}
		}
		if lost {
			split = append(split, p)
		}
	}
	return split
}

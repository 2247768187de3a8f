package secretfiles

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/text/quote"
)

// LinkFinder finds control files behind symbolic links: a change of src/settings.json is one of
// .claude/settings.json where .claude links to src. The zero value knows no link.
type LinkFinder struct {
	// is reports what a path is by itself. nil is ControlFile.
	is   func(path string, isDir bool) (what string, yes bool)
	root string
	// read returns the target of the link at a path of the tree, or "" if none is there.
	read    func(path string) (target string, err error)
	targets map[string]linkTarget
	sorted  []string // the keys of targets
}

// linkTarget is a path that a control file leads to.
type linkTarget struct {
	what, link string
	// exact is about the path itself, and not about what is below it.
	exact bool
}

// maxLinks bounds how many links one path may lead through, as the kernel does.
const maxLinks = 40

// NewLinked follows those of the given links that are control files. The tree is at root, an
// absolute path that links in it may name; with "" an absolute link leads out of the tree. read returns the target of the link at a path, or
// "" if none is there.
func NewLinked(root string, links []string, read func(path string) (target string, err error)) (*LinkFinder, error) {
	l := &LinkFinder{is: ControlFile, root: root, read: read, targets: map[string]linkTarget{}}
	return l, l.followAll(links)
}

// NewPushedLinks is NewLinked for files that run when they are pushed.
func NewPushedLinks(links []string, read func(path string) (target string, err error)) (*LinkFinder, error) {
	l := &LinkFinder{is: RunsWhenPushed, read: read, targets: map[string]linkTarget{}}
	return l, l.followAll(links)
}

func (l *LinkFinder) followAll(links []string) error {
	for _, link := range links {
		what, is := l.is(link, false)
		if !is {
			what, is = l.is(link, true)
		}
		if !is {
			continue
		}
		if err := l.follow(link, what); err != nil {
			return err
		}
	}
	l.sorted = slices.Sorted(maps.Keys(l.targets))
	return nil
}

// ControlFile is as the function of this name, and also knows what links lead to.
func (l *LinkFinder) ControlFile(p string, isDir bool) (what string, yes bool) {
	if l.is == nil {
		return ControlFile(p, isDir)
	}
	return l.Find(p, isDir)
}

// Find reports what a path is, by itself or as what a link leads to.
func (l *LinkFinder) Find(p string, isDir bool) (what string, yes bool) {
	if what, yes = l.is(p, isDir); yes || len(l.targets) == 0 || isInstruction(p) {
		return what, yes
	}
	for above := p; ; above = path.Dir(above) {
		if t, ok := l.targets[above]; ok && (!t.exact || above == p && !isDir) {
			return t.what + ", " + quote.Path(t.link) + " links to it", true
		}
		if above == "." || above == "/" {
			break
		}
	}
	if isDir {
		return "", false
	}
	// A file or a link in place of a directory above it leads elsewhere.
	i, _ := slices.BinarySearch(l.sorted, p+"/")
	if i == len(l.sorted) || !strings.HasPrefix(l.sorted[i], p+"/") {
		return "", false
	}
	t := l.targets[l.sorted[i]]
	return t.what + ", " + quote.Path(t.link) + " links to " + quote.Path(l.sorted[i]), true
}

// follow notes what a link leads to, and the links on the way.
func (l *LinkFinder) follow(link, what string) error {
	at, rest := ".", strings.Split(link, "/")
	for hops := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		next := path.Join(at, name)
		if at == "." && name == ".." {
			return nil // outside of the tree
		}
		target, err := l.read(next)
		if err != nil {
			return err
		}
		if target == "" {
			at = next
			continue
		}
		if hops++; hops > maxLinks {
			return nil
		}
		if next != link {
			l.note(next, linkTarget{what, link, true})
		}
		below, inside := l.inside(target)
		if !inside {
			return nil
		}
		if path.IsAbs(target) {
			at = "."
		}
		rest = append(strings.Split(below, "/"), rest...)
	}
	l.note(at, linkTarget{what, link, false})
	return nil
}

// inside returns an absolute target as a path below the root; a relative one stays.
func (l *LinkFinder) inside(target string) (string, bool) {
	if !path.IsAbs(target) {
		return target, true
	}
	if l.root == "" {
		return "", false
	}
	below, inside := strings.CutPrefix(path.Clean(target)+"/", strings.TrimSuffix(l.root, "/")+"/")
	return path.Clean(below), inside
}

// note keeps the reason that comes first, so that the result does not depend on the order
// of the links.
func (l *LinkFinder) note(p string, t linkTarget) {
	old, ok := l.targets[p]
	if !ok || old.exact && !t.exact || old.exact == t.exact && t.link < old.link {
		l.targets[p] = t
	}
}

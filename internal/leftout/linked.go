package leftout

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/quote"
)

// Linked finds control files behind symbolic links: a change of src/settings.json is one of
// .claude/settings.json where .claude links to src. The zero value knows no link.
type Linked struct {
	root    string
	links   map[string]string
	targets map[string]linkTarget // nil until they are asked for
}

// linkTarget is a path that a control file leads to.
type linkTarget struct {
	what, link string
	// exact is about the path itself, and not about what is below it.
	exact bool
}

// maxLinks bounds how many links one path may lead through, as the kernel does.
const maxLinks = 40

// NewLinked returns a Linked for the tree at root, an absolute path that links in it may
// name.
func NewLinked(root string) *Linked { return &Linked{root: root, links: map[string]string{}} }

// Add adds a link of the tree.
func (l *Linked) Add(path, target string) { l.links[path], l.targets = target, nil }

// ControlFile is as the function of this name, and also knows what links lead to.
func (l *Linked) ControlFile(p string, isDir bool) (what string, yes bool) {
	if what, yes = ControlFile(p, isDir); yes || len(l.links) == 0 || isInstruction(p) {
		return what, yes
	}
	l.resolve()
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
	for _, target := range slices.Sorted(maps.Keys(l.targets)) {
		if t := l.targets[target]; strings.HasPrefix(target, p+"/") {
			return t.what + ", " + quote.Path(t.link) + " links to " + quote.Path(target), true
		}
	}
	return "", false
}

// resolve follows the links that are control files.
func (l *Linked) resolve() {
	if l.targets != nil {
		return
	}
	l.targets = map[string]linkTarget{}
	for link := range l.links {
		what, is := IsControl(link)
		if !is {
			what, is = IsControlDir(link)
		}
		if is {
			l.follow(link, what)
		}
	}
}

// follow notes what a link leads to, and the links on the way.
func (l *Linked) follow(link, what string) {
	at, rest := ".", strings.Split(link, "/")
	for hops := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch next := path.Join(at, name); {
		case name == "" || name == ".":
		case name == ".." && at == ".":
			return // outside of the tree
		case name == "..":
			at = path.Dir(at)
		case l.links[next] == "":
			at = next
		default:
			if hops++; hops > maxLinks {
				return
			}
			if next != link {
				l.note(next, linkTarget{what, link, true})
			}
			target, inside := l.inside(l.links[next])
			if !inside {
				return
			}
			if path.IsAbs(l.links[next]) {
				at = "."
			}
			rest = append(strings.Split(target, "/"), rest...)
		}
	}
	l.note(at, linkTarget{what, link, false})
}

// inside returns an absolute target as a path below the root; a relative one stays.
func (l *Linked) inside(target string) (string, bool) {
	if !path.IsAbs(target) {
		return target, true
	}
	clean := path.Clean(target)
	if clean == l.root {
		return ".", true
	}
	return strings.CutPrefix(clean, l.root+"/")
}

// note keeps the reason that comes first, so that the result does not depend on the order
// of the links.
func (l *Linked) note(p string, t linkTarget) {
	old, ok := l.targets[p]
	if !ok || old.exact && !t.exact || old.exact == t.exact && t.link < old.link {
		l.targets[p] = t
	}
}

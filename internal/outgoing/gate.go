// Package outgoing decides what of the files of a cell may be written to a directory
// of the host. Every way out of a cell asks it: apply, exports to a directory, copies
// out of a cell, and publications.
//
// The list of control files is that of package leftout. This package knows where an
// entry will be on the host, and what is around it there. It must not know cells,
// states or how a file is written.
package outgoing

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/quote"
)

// View lists the names in the directories below one directory. What is no directory has
// none.
type View func(dir string) ([]string, error)

// Gate decides about the entries that are written below one directory.
type Gate struct {
	place Place
	links *leftout.Linked
	allow *leftout.Selector // nil allows nothing
	// before and after are the directory as it is, and as it will be.
	before, after View
	repos         map[string]gitDir
}

// gitDir is what a directory is to git.
type gitDir struct {
	is bool
	// woken is a control file that is there already and has an effect as soon as the
	// directory is that of a repository; "" if there is none.
	woken string
}

// New returns the gate of a directory. allow has the patterns of the control files that
// the operator allows. An error is about a pattern.
func New(place Place, allow []string) (*Gate, error) {
	g := &Gate{place: place}
	if len(allow) == 0 {
		return g, nil
	}
	selector, err := leftout.NewSelector(allow, nil)
	g.allow = selector
	return g, err
}

// Follow makes the gate find control files behind links.
func (g *Gate) Follow(links *leftout.Linked) { g.links = links }

// Between makes the gate know repositories by their contents. before is the directory as
// it is, nil if it is new. after has at least what it will have once everything is
// written.
func (g *Gate) Between(before, after View) {
	g.before, g.after, g.repos = before, after, map[string]gitDir{}
}

// Control reports whether an entry is a control file where it is written, and what it
// is. p is relative to the directory. It does not matter whether the entry is allowed.
func (g *Gate) Control(p string, dir bool) (what string, yes bool, err error) {
	if g.links != nil {
		if what, yes = g.links.ControlFile(p, dir); yes {
			return what, yes, nil
		}
	}
	full := path.Join(g.place.above, p)
	if what, yes = leftout.ControlFile(full, dir); yes {
		return what, yes, nil
	}
	for _, at := range g.place.git {
		below := strings.TrimPrefix(strings.TrimPrefix(full, at), "/")
		if what, yes = leftout.ControlInGitDir(below, dir); yes {
			return what, yes, nil
		}
	}
	return g.inGitDir(p, dir)
}

// inGitDir is Control for the directories of repositories below the gate's directory,
// whatever their names.
func (g *Gate) inGitDir(p string, dir bool) (what string, yes bool, err error) {
	if g.after == nil || p == "." {
		return "", false, nil
	}
	for at := path.Dir(p); ; at = path.Dir(at) {
		repo, err := g.gitDir(at)
		if err != nil {
			return "", false, err
		}
		if repo.woken != "" {
			return "makes " + quote.Path(at) + " a git repository, with " + quote.Path(repo.woken) + " that is there already", true, nil
		}
		if repo.is {
			if what, yes = leftout.ControlInGitDir(strings.TrimPrefix(p, strings.TrimPrefix(at+"/", "./")), dir); yes {
				return what, true, nil
			}
		}
		if at == "." {
			return "", false, nil
		}
	}
}

// gitDir returns what a directory will be to git.
func (g *Gate) gitDir(at string) (gitDir, error) {
	if known, ok := g.repos[at]; ok {
		return known, nil
	}
	names, err := g.after(at)
	if err != nil {
		return gitDir{}, err
	}
	repo := gitDir{is: leftout.IsGitDir(names)}
	if repo.is && g.before != nil {
		if names, err = g.before(at); err != nil {
			return gitDir{}, err
		}
		if !leftout.IsGitDir(names) {
			repo.woken = controlAmong(names)
		}
	}
	g.repos[at] = repo
	return repo, nil
}

// controlAmong returns the first of the names in the directory of a repository that is a
// control file; "" if none is.
func controlAmong(names []string) string {
	for _, name := range names {
		_, file := leftout.ControlInGitDir(name, false)
		if _, dir := leftout.ControlInGitDir(name, true); file || dir {
			return name
		}
	}
	return ""
}

// Allows reports whether the operator allows an entry by name.
func (g *Gate) Allows(p string, dir bool) bool { return g.allow != nil && g.allow.Match(p, dir) }

// Holds reports whether an entry is held back, and what it is.
func (g *Gate) Holds(p string, dir bool) (what string, yes bool, err error) {
	if g.Allows(p, dir) {
		return "", false, nil
	}
	return g.Control(p, dir)
}

// Together returns the names that any of the views has.
func Together(views ...View) View {
	return func(dir string) (all []string, err error) {
		for _, v := range views {
			names, err := v(dir)
			if err != nil {
				return nil, err
			}
			all = append(all, names...)
		}
		return all, nil
	}
}

// ViewOf returns the view of a directory of the host. No link is followed.
func ViewOf(dir *fsx.Dir) View {
	return func(at string) ([]string, error) {
		d, err := dir.OpenDir(at)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return d.Names()
	}
}

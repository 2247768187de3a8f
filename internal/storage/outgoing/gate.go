// Package outgoing decides what of the files of a cell may be written to a directory
// of the host. Every way out of a cell asks it: apply, exports to a directory, copies
// out of a cell, and publications.
//
// The list of control files is that of package leftout. This package knows where an
// entry will be on the host, and what is around it there. It must not know cells,
// states or how a file is written.
package outgoing

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// View is a directory as it is, or as it will be.
type View struct {
	// Names lists the names in a directory. What is no directory has none.
	Names func(dir string) ([]string, error)
	// Open opens a file. Without it contents do not count.
	Open func(p string) (*os.File, error)
	// Link returns the target of a symbolic link. Without it links lead nowhere.
	Link func(p string) (string, error)
}

// Verdict is what becomes of an entry.
type Verdict uint8

const (
	// Passes: it is written.
	Passes Verdict = iota
	// Held: it is written only if the operator allows it by name.
	Held
	// Behind: it is not written, and no decision is needed. See secretfiles.GitBehind.
	Behind
)

// Entry is a change of a path below the gate's directory.
type Entry struct {
	Path string
	// Dir means that it is a directory, File that it is a regular file, and Gone that it
	// is removed, which leaves nothing behind.
	Dir, File, Gone bool
}

// Gate decides about the entries that are written below one directory.
type Gate struct {
	place  Place
	links  *secretfiles.LinkFinder
	named  []naming
	allow  *secretfiles.Selector // nil allows nothing
	within *secretfiles.Selector // bounds allow; nil is no bound
	// before and after are the directory as it is, and as it will be; nil if not known.
	before, after *View
	repos         map[string]gitDir
	packs         map[string]string // why packs are held back, by their paths
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
	selector, err := secretfiles.NewSelector(allow, nil)
	g.allow = selector
	return g, err
}

// Restrict makes the gate allow only what matches a pattern besides, so nothing without
// patterns. An error is about a pattern.
func (g *Gate) Restrict(patterns []string) error {
	if len(patterns) == 0 {
		g.allow = nil
		return nil
	}
	selector, err := secretfiles.NewSelector(patterns, nil)
	g.within = selector
	return err
}

// Follow makes the gate find control files behind links.
func (g *Gate) Follow(links *secretfiles.LinkFinder) { g.links = links }

// Obey makes the gate hold back what the settings of a directory name. The gate's
// directory is in its place. root is the absolute path that the settings may use for it.
func (g *Gate) Obey(settings *View, root string) error {
	named, err := secretfiles.FindNamed(viewFiles{settings}, root, false)
	if err == nil {
		g.named = append(g.named, naming{named, "."})
	}
	return err
}

// CompareRepositories makes the gate know repositories by their contents. before is the directory as
// it is, nil if it is new. after has at least what it will have once everything is
// written.
func (g *Gate) CompareRepositories(before, after *View) {
	g.before, g.after, g.repos, g.packs = before, after, map[string]gitDir{}, map[string]string{}
}

// Judge decides about an entry, and returns what it is if it is held back.
func (g *Gate) Judge(ctx context.Context, e Entry) (v Verdict, what string, err error) {
	if g.Allows(e.Path, e.Dir) {
		return Passes, "", nil
	}
	what, control, err := g.Control(e.Path, e.Dir)
	if control || err != nil {
		return Held, what, err
	}
	if e.Gone || e.Dir {
		return Passes, "", nil
	}
	in, err := g.gitFiles(e.Path)
	if err != nil {
		return Held, "", err
	}
	if slices.Contains(in, secretfiles.GitBehind) {
		return Behind, "", nil
	}
	for _, file := range in {
		why, err := g.check(ctx, e, file)
		if why != "" || err != nil {
			return Held, why, err
		}
	}
	return Passes, "", nil
}

// StaysBehind reports whether an entry is neither written nor held back.
func (g *Gate) StaysBehind(e Entry) (bool, error) {
	if e.Gone || e.Dir || g.Allows(e.Path, false) {
		return false, nil
	}
	if _, control, err := g.Control(e.Path, false); control || err != nil {
		return false, err
	}
	in, err := g.gitFiles(e.Path)
	return slices.Contains(in, secretfiles.GitBehind), err
}

// Control reports whether an entry is a control file by where it is written, and what it
// is. p is relative to the directory. It does not matter whether the entry is allowed.
func (g *Gate) Control(p string, dir bool) (what string, yes bool, err error) {
	if g.links != nil {
		if what, yes = g.links.ControlFile(p, dir); yes {
			return what, yes, nil
		}
	}
	if what, yes = secretfiles.ControlFile(path.Join(g.place.above, p), dir); yes {
		return what, yes, nil
	}
	for _, n := range slices.Concat(g.named, g.place.named) {
		if what, yes = n.Find(path.Join(n.below, p), dir); yes {
			return what, yes, nil
		}
	}
	for _, below := range g.inPlace(p) {
		if what, yes = secretfiles.ControlInGitDir(below, dir); yes {
			return what, yes, nil
		}
	}
	return g.inGitDir(p, dir)
}

// inPlace returns the paths of an entry in the repositories that the gate's directory is
// in.
func (g *Gate) inPlace(p string) []string {
	full := path.Join(g.place.above, p)
	var list []string
	for _, at := range g.place.git {
		list = append(list, strings.TrimPrefix(strings.TrimPrefix(full, at), "/"))
	}
	return list
}

// gitFiles returns what a file is in each of the repositories in whose directory it is.
func (g *Gate) gitFiles(p string) (list []secretfiles.GitFile, err error) {
	secretfiles.GitFiles(path.Join(g.place.above, p), false, func(f secretfiles.GitFile) { list = append(list, f) })
	for _, below := range g.inPlace(p) {
		list = append(list, secretfiles.InGitDir(below, false))
	}
	if g.after == nil {
		return list, nil
	}
	for at := path.Dir(p); ; at = path.Dir(at) {
		repo, err := g.gitDir(at)
		if err != nil {
			return nil, err
		}
		if repo.is {
			list = append(list, secretfiles.InGitDir(in(at, p), false))
		}
		if at == "." {
			return list, nil
		}
	}
}

// in returns the path of an entry in a directory.
func in(dir, p string) string { return strings.TrimPrefix(p, strings.TrimPrefix(dir+"/", "./")) }

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
			if what, yes = secretfiles.ControlInGitDir(in(at, p), dir); yes {
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
	names, err := g.after.Names(at)
	if err != nil {
		return gitDir{}, err
	}
	repo := gitDir{is: secretfiles.IsGitDir(names)}
	if repo.is && g.before != nil {
		if names, err = g.before.Names(at); err != nil {
			return gitDir{}, err
		}
		if !secretfiles.IsGitDir(names) {
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
		if secretfiles.IsGitSetting(name) {
			return name
		}
	}
	return ""
}

// Allows reports whether the operator allows an entry by name.
func (g *Gate) Allows(p string, dir bool) bool {
	return g.allow != nil && g.allow.Match(p, dir) && (g.within == nil || g.within.Match(p, dir))
}

// Package mask decides what a session does not see of the control files in its
// workspace, or sees without being able to change it, and which of the paths that a
// session writes are set aside when its work is reviewed.
//
// The list of control files is that of package leftout. This package walks a tree
// and reads git settings in it. It must not know cells, states or mounts.
package mask

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/gitconfig"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

// Options changes what is masked.
type Options struct {
	// ShowGit shows the settings and hooks of repositories as they are, read-only.
	ShowGit bool
	// ShowMCP shows the files that name servers of agents as they are, read-only.
	ShowMCP bool
	// Also are patterns of further paths that are hidden.
	Also []string
	// State are patterns of paths in which an agent keeps its own state. They are
	// not masked, and are no part of the work.
	State []string
}

// Plan says which control files of a workspace a session sees, and how. All lists are
// sorted.
type Plan struct {
	// Hidden are paths that exist and that the session does not see. HiddenDirs are
	// the directories among them.
	Hidden     []string
	HiddenDirs []string
	// ReadOnly are paths that the session sees and cannot change.
	ReadOnly []string
	// Filtered are files that the session sees with other contents, read-only.
	Filtered []FilteredFile
	// Missing are paths that do not exist and that the session cannot make.
	Missing []string
}

// FilteredFile is a file with settings of git.
type FilteredFile struct {
	Path string
	// Contents are what the session sees, Removed the names of the settings that
	// are not in it.
	Contents []byte
	Removed  []string
	// Unreadable means that the file is no configuration: the session sees an empty
	// one.
	Unreadable bool
}

// ErrTooMany means that a workspace has more control files than a cell can mask.
var ErrTooMany = errors.New("too many control files")

const (
	maxPaths = 10_000
	// maxBytes bounds the paths together with those of the directories above them.
	maxBytes  = 16 << 20
	maxConfig = 1 << 20
	maxDepth  = 1000
)

// Find walks a workspace.
func Find(files secretfiles.Tree, opt Options) (*Plan, error) {
	rules, err := opt.rules()
	if err != nil {
		return nil, err
	}
	named, err := secretfiles.FindNamed(files, files.Root(), false)
	if err != nil {
		return nil, err
	}
	f := &finder{files: files, rules: rules, named: named, plan: &Plan{}}
	if err := f.walk(".", "", 0); err != nil {
		return nil, err
	}
	slices.Sort(f.plan.Hidden)
	slices.Sort(f.plan.ReadOnly)
	slices.Sort(f.plan.Missing)
	slices.SortFunc(f.plan.Filtered, func(a, b FilteredFile) int { return strings.Compare(a.Path, b.Path) })
	return f.plan, nil
}

type finder struct {
	files secretfiles.Tree
	rules *Rules
	named *secretfiles.Named
	plan  *Plan
	paths int // that are masked
	bytes int // of these paths and of the directories above them, at most
}

// walk finds what is masked in a directory. within is its path in the repository
// that it is in; "" if it is in none.
func (f *finder) walk(rel, within string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: directories are nested more than %d deep", ErrTooMany, maxDepth)
	}
	children, err := f.files.Children(rel)
	if err != nil {
		return err
	}
	names := make(map[string]secretfiles.Child, len(children))
	for _, c := range children {
		names[c.Name] = c
	}
	if secretfiles.IsGitDir(slices.Collect(maps.Keys(names))) {
		within = "."
	}
	if err := f.addMissing(rel, names, within == "."); err != nil {
		return err
	}
	for _, c := range children {
		if err := f.child(path.Join(rel, c.Name), c, pathInRepo(within, c.Name), depth); err != nil {
			return err
		}
	}
	return nil
}

// pathInRepo returns the path of a name in a repository; "" outside of one.
func pathInRepo(within, name string) string {
	if within == "" {
		return ""
	}
	return path.Join(within, name)
}

func (f *finder) child(p string, c secretfiles.Child, within string, depth int) error {
	mask := f.rules.mask(p, c.Dir, within)
	if _, is := f.named.Find(p, c.Dir); is && mask == secretfiles.Shown && !f.rules.IsState(p, c.Dir) {
		mask = secretfiles.ReadOnly // a program of the settings
	}
	switch {
	case mask == secretfiles.Shown && c.Dir:
		return f.walk(p, within, depth+1)
	case mask == secretfiles.Shown:
		return nil
	case mask == secretfiles.ReadOnly && (c.Dir || c.File):
		if err := f.count(p); err != nil {
			return err
		}
		f.plan.ReadOnly = append(f.plan.ReadOnly, p)
		return f.hiddenIn(p, c, depth)
	case mask == secretfiles.Filtered && c.File:
		return f.filter(p)
	}
	if err := f.count(p); err != nil {
		return err
	}
	// A link cannot be made read-only: it is hidden.
	f.hide(p, c)
	return nil
}

func (f *finder) hide(p string, c secretfiles.Child) {
	f.plan.Hidden = append(f.plan.Hidden, p)
	if c.Dir {
		f.plan.HiddenDirs = append(f.plan.HiddenDirs, p)
	}
}

// hiddenIn finds what is hidden in a read-only directory.
func (f *finder) hiddenIn(rel string, c secretfiles.Child, depth int) error {
	if !c.Dir || depth > maxDepth {
		return nil
	}
	children, err := f.files.Children(rel)
	if err != nil {
		return err
	}
	for _, c := range children {
		p := path.Join(rel, c.Name)
		if f.rules.hiddenServers(p, c.Dir) {
			if err := f.count(p); err != nil {
				return err
			}
			f.hide(p, c)
		} else if err := f.hiddenIn(p, c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// count counts a path that is masked.
func (f *finder) count(p string) error {
	f.paths++
	f.bytes += len(p) * (1 + strings.Count(p, "/"))
	switch {
	case f.paths > maxPaths:
		return fmt.Errorf("%w: more than %d", ErrTooMany, maxPaths)
	case f.bytes > maxBytes:
		return fmt.Errorf("%w: more than %d bytes of paths", ErrTooMany, maxBytes)
	}
	return nil
}

// filter reads a file with settings of git.
func (f *finder) filter(p string) error {
	if err := f.count(p); err != nil {
		return err
	}
	file, err := f.files.Open(p)
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxConfig+1))
	if err != nil {
		return err
	}
	shown := FilteredFile{Path: p}
	// The repository of a submodule names its work tree.
	safe, removed, err := gitconfig.Safe(string(text), gitconfig.Options{Worktree: strings.Contains(p, ".git/modules/")})
	if err != nil || len(text) > maxConfig {
		shown.Unreadable = true
	} else {
		shown.Contents, shown.Removed = []byte(safe), removed
	}
	f.plan.Filtered = append(f.plan.Filtered, shown)
	return nil
}

// addMissing adds the control files that a directory does not have: in the root those
// of all known names, in a repository its hooks and settings.
func (f *finder) addMissing(rel string, names map[string]secretfiles.Child, repository bool) error {
	var want []string
	if rel == "." {
		want = f.rules.rootNames()
	}
	if repository {
		want = append(want, "hooks", "config", "config.worktree", "info/attributes")
	}
	for _, name := range want {
		skip, err := f.isUnneeded(rel, names, name)
		if err != nil {
			return err
		}
		if skip {
			continue
		}
		p := path.Join(rel, name)
		if err := f.count(p); err != nil {
			return err
		}
		f.plan.Missing = append(f.plan.Missing, p)
	}
	return nil
}

// isUnneeded reports whether a name needs no mask for a missing path: the path exists,
// or the directory above it does not, or that directory is masked.
func (f *finder) isUnneeded(rel string, names map[string]secretfiles.Child, name string) (bool, error) {
	dir, base, deeper := strings.Cut(name, "/")
	c, there := names[dir]
	if !deeper || !there {
		return there || deeper, nil
	}
	above := path.Join(rel, dir)
	if !c.Dir || f.rules.mask(above, true, "") != secretfiles.Shown {
		return true, nil
	}
	children, err := f.files.Children(above)
	return slices.ContainsFunc(children, func(c secretfiles.Child) bool { return c.Name == base }), err
}

// rootNames returns the names that are masked in the root although they are missing.
func (r *Rules) rootNames() []string {
	var list []string
	for name := range maps.Keys(secretfiles.MaskedNames()) {
		if strings.Count(name, "/") < 2 && !strings.HasPrefix(name, ".git/") {
			list = append(list, name)
		}
	}
	for _, p := range r.opt.Also {
		if p = strings.Trim(p, "/"); !strings.ContainsAny(p, `*?[\!`) && strings.Count(p, "/") < 2 && p != "" {
			list = append(list, p)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

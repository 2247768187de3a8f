package secretfiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/gitread"
	"github.com/forkcell/forkcell/internal/text/quote"
)

const (
	maxGitFile = 4096
	maxDepth   = 1000
)

// ErrGit is wrapped by the errors about a repository that cannot be read.
var ErrGit = errors.New("git repository cannot be read")

// Tree is a tree of files that is searched for repositories.
type Tree interface {
	gitread.Files
	// Children lists a directory.
	Children(path string) ([]Child, error)
	// Root is the absolute path of the tree, to which files in it may refer.
	Root() string
}

// Child is a name in a directory.
type Child struct {
	Name string
	Dir  bool
	File bool // a regular one
}

// TrackedPaths returns the paths below root that are in the commit of HEAD, of the
// repository at root and of every repository below it. It reads only what is
// inside root: in a repository whose objects are elsewhere nothing is tracked.
// Paths that are only in an index do not count: `git add` alone must not switch a
// rule off.
//
// If a repository cannot be read, the error wraps ErrGit and names it. The map
// then still has everything that could be read: treating the rest as not tracked
// leaves more out, not less.
func TrackedPaths(ctx context.Context, root *fsx.Dir) (map[string]struct{}, error) {
	t := tracker{files: InDir(root), claims: newClaims()}
	if err := t.walk(ctx, ".", 0); err != nil {
		return nil, err
	}
	paths := make(map[string]struct{}, len(t.claims.Paths))
	for p := range t.claims.Paths {
		paths[p] = struct{}{}
	}
	var bad []error
	for _, where := range slices.Sorted(maps.Keys(t.claims.Bad)) {
		bad = append(bad, fmt.Errorf("%w: %s: %w", ErrGit, quote.Path(where), t.claims.Bad[where]))
	}
	return paths, joinErrors(bad)
}

// joinErrors is errors.Join with a one-line text.
func joinErrors(errs []error) error {
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	return fmt.Errorf("%w; and %d more", errs[0], len(errs)-1)
}

// Claims lists the paths that the repositories of a tree track.
type Claims struct {
	// Paths are the tracked paths, each with the file of the repository that
	// lists it.
	Paths map[string]string
	// Refs are the names of commits, by the files of their references.
	Refs map[string]string
	// Bad has the errors of files that cannot be read.
	Bad map[string]error
}

func newClaims() Claims {
	return Claims{Paths: map[string]string{}, Refs: map[string]string{}, Bad: map[string]error{}}
}

// ClaimedPaths returns what the repositories of a tree track: by HEAD, by the index,
// and by the references that base, an earlier state of the tree, does not have.
// Without a base, references other than HEAD are only listed.
func ClaimedPaths(ctx context.Context, files Tree, base *Claims) (Claims, error) {
	t := tracker{files: files, all: true, base: base, claims: newClaims()}
	return t.claims, t.walk(ctx, ".", 0)
}

// Indexes returns the indexes of the repositories of a tree, each with the work tree that
// it is about.
func Indexes(ctx context.Context, files Tree) (map[string]string, error) {
	found := map[string]string{}
	t := tracker{files: files, claims: newClaims(), visit: func(rel, git string) { found[path.Join(git, "index")] = rel }}
	return found, t.walk(ctx, ".", 0)
}

type tracker struct {
	files  Tree
	all    bool
	base   *Claims
	claims Claims
	// visit, if set, is called for each repository instead of reading it.
	visit func(rel, git string)
}

func (t *tracker) walk(ctx context.Context, rel string, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if depth > maxDepth {
		return nil // nothing below counts as tracked
	}
	children, err := t.files.Children(rel)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			return nil // the import reports it
		}
		return fmt.Errorf("look for git repositories in %s: %w", quote.Path(rel), err)
	}
	for _, c := range children {
		below := path.Join(rel, c.Name)
		switch {
		case c.Name == ".git":
			git, ok, err := t.gitDir(rel, c)
			if ok && err == nil {
				below, err = git, t.repository(ctx, rel, git)
			}
			if err != nil {
				t.claims.Bad[below] = err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		case c.Dir:
			if err := t.walk(ctx, below, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// gitDir returns the directory of the repository whose work tree is rel, if it is in the
// tree: that called .git, or the one that a file of this name leads to. Behind a link of
// this name everything is a control file.
func (t *tracker) gitDir(rel string, c Child) (git string, ok bool, err error) {
	git = path.Join(rel, ".git")
	if c.File { // a submodule, a linked work tree, or a repository that has another name
		return t.gitFile(rel, git)
	}
	return git, c.Dir, nil
}

// repository adds what the repository at git tracks, whose work tree is rel.
func (t *tracker) repository(ctx context.Context, rel, git string) error {
	if t.visit != nil {
		t.visit(rel, git)
		return nil
	}
	repo, err := gitread.Open(t.files, git)
	if err != nil {
		return err
	}
	defer repo.Close()
	head, err := repo.Head()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // not a repository
	}
	if err == nil {
		err = t.commit(ctx, repo, rel, path.Join(git, "HEAD"), head)
	}
	if err != nil || !t.all {
		return err
	}
	t.index(repo, rel, path.Join(git, "index"))
	return t.refs(ctx, repo, rel, git)
}

// commit adds the files of a commit.
func (t *tracker) commit(ctx context.Context, repo *gitread.Repo, rel, source, id string) error {
	t.claims.Refs[source] = id
	paths, err := repo.Paths(ctx, id)
	for _, p := range paths {
		t.add(rel, p, source)
	}
	return err
}

func (t *tracker) add(rel, name, source string) {
	full := path.Join(rel, name)
	if fsx.CheckPath(name) == nil && t.claims.Paths[full] == "" {
		t.claims.Paths[full] = source
	}
}

func (t *tracker) index(repo *gitread.Repo, rel, source string) {
	entries, err := repo.Index()
	if err != nil {
		t.claims.Bad[source] = err
	}
	for _, e := range entries {
		t.add(rel, e.Name, source)
	}
}

// maxNewRefs bounds the number of commits that are read.
const maxNewRefs = 100

// refs adds the files of commits that the base does not have.
func (t *tracker) refs(ctx context.Context, repo *gitread.Repo, rel, git string) error {
	refs, err := repo.Refs()
	if err != nil {
		return err
	}
	known := map[string]bool{"": true}
	if t.base != nil {
		for _, id := range t.base.Refs {
			known[id] = true
		}
	}
	looked := 0
	for name, id := range refs {
		source := path.Join(git, name)
		if t.base == nil || known[id] {
			t.claims.Refs[source] = id
			continue
		}
		known[id] = true
		if looked++; looked > maxNewRefs {
			return fmt.Errorf("more than %d of its references are new", maxNewRefs)
		}
		if err := t.commit(ctx, repo, rel, source, id); err != nil {
			t.claims.Bad[source] = err
		}
	}
	return nil
}

// gitFile returns the directory that a file called .git points to, if it is
// inside the tree.
func (t *tracker) gitFile(rel, file string) (dir string, ok bool, err error) {
	b, err := gitread.Read(t.files, file, maxGitFile)
	if err != nil {
		return "", false, err
	}
	target, ok := strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), "gitdir: ")
	if !ok {
		return "", false, errors.New("it does not name the repository's directory")
	}
	if path.IsAbs(target) {
		target, ok = strings.CutPrefix(path.Clean(target), path.Clean(t.files.Root())+"/")
		return target, ok, nil
	}
	target = path.Join(rel, target)
	return target, target != ".." && !strings.HasPrefix(target, "../"), nil
}

// InDir returns the tree of a directory of the host.
func InDir(dir *fsx.Dir) Tree { return dirTree{dir} }

// dirTree is a directory of the host.
type dirTree struct{ dir *fsx.Dir }

func (d dirTree) Root() string { return d.dir.Path() }

func (d dirTree) Open(name string) (*os.File, error) { return d.dir.OpenFile(name) }

func (d dirTree) Readlink(name string) (string, error) { return d.dir.Readlink(name) }

func (d dirTree) Names(name string) ([]string, error) {
	sub, err := d.dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	return sub.Names()
}

// Children lists a directory with the file types that the kernel returns with the
// names, which saves one lstat per file.
func (d dirTree) Children(name string) ([]Child, error) {
	sub, err := d.dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	fd, err := unix.Openat(sub.Fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), sub.Path())
	defer f.Close()
	entries, err := f.ReadDir(-1)
	out := make([]Child, len(entries))
	for i, e := range entries {
		out[i] = Child{Name: e.Name(), Dir: e.IsDir(), File: e.Type().IsRegular()}
	}
	return out, err
}

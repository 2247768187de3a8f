package publish

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/gitread"
	"github.com/forkcell/forkcell/internal/text/quote"
)

const (
	// maxConfig bounds the configuration of a repository.
	maxConfig = 1 << 20
	// maxObjectFiles bounds the files in which a repository keeps its objects.
	maxObjectFiles = 2_000_000
)

// hostRepo is the repository of the host. It is read without git.
type hostRepo struct {
	root   *fsx.Dir
	path   string
	config string // a copy of its configuration, for questions about single keys
}

// files reads the repository without following links.
type files struct{ *fsx.Dir }

func (f files) Open(name string) (*os.File, error) { return f.OpenFile(name) }

func (f files) Names(name string) ([]string, error) {
	d, err := f.OpenDir(name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Names()
}

// refuseRepo returns the refusal of a repository that cannot be published to.
func refuseRepo(p, format string, args ...any) error {
	return api.Refusef(api.CodePublish, "publish works on a directory with a repository of its own",
		"%s: %s", quote.Path(p), fmt.Sprintf(format, args...))
}

// openRepo checks that a directory has a repository of its own whose objects are all
// there: neither links nor alternates may name objects elsewhere on the host.
func openRepo(ctx context.Context, root *fsx.Dir, p string, s *scratch) (*hostRepo, error) {
	info, err := root.Lstat(".git")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuseRepo(p, "it has no git repository")
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, refuseRepo(p, "its repository is in another directory")
	}
	for _, name := range []string{".git/commondir", ".git/objects/info/alternates", ".git/objects/info/http-alternates"} {
		if _, err := root.Lstat(name); err == nil {
			return nil, refuseRepo(p, "%s: objects of other repositories are not used", name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if _, err := root.Lstat(".git/reftable"); err == nil {
		return nil, refuseRepo(p, "references in tables are not supported")
	}
	if strings.ContainsAny(p, "\n\"") {
		return nil, refuseRepo(p, "the path has a line end or a quote")
	}
	r := &hostRepo{root: root, path: p}
	if err := r.checkObjects(); err != nil {
		return nil, err
	}
	return r, r.readConfig(ctx, s)
}

// checkObjects refuses links and other special files among the objects.
func (r *hostRepo) checkObjects() error {
	seen := 0
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		names, err := files{r.root}.Names(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			p := path.Join(dir, name)
			info, err := r.root.Lstat(p)
			if errors.Is(err, fs.ErrNotExist) {
				continue // a file that git has just moved
			}
			if seen++; err == nil && seen > maxObjectFiles {
				err = errors.New("too many files")
			}
			if err != nil {
				return err
			}
			switch {
			case info.IsDir() && depth < 3:
				err = walk(p, depth+1)
			case !info.IsRegular():
				err = refuseRepo(r.path, "%s is not a regular file", quote.Path(p))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return walk(".git/objects", 0)
}

// readConfig copies the configuration to the scratch directory, where git is asked
// about single keys of it without using it.
func (r *hostRepo) readConfig(ctx context.Context, s *scratch) error {
	text, err := gitread.Read(files{r.root}, ".git/config", maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = nil, nil
	}
	if err != nil {
		return refuseRepo(r.path, ".git/config: %v", err)
	}
	r.config = s.path("host-config")
	if err := fsx.WriteFile(s.dir, "host-config", text, 0o600); err != nil {
		return err
	}
	for key, want := range map[string]string{"extensions.objectformat": "sha1", "extensions.refstorage": "files"} {
		values, err := r.values(ctx, s.git, key)
		if err != nil {
			return err
		}
		for _, v := range values {
			if !strings.EqualFold(v, want) {
				return refuseRepo(r.path, "%s = %s is not supported", key, quote.Arg(v))
			}
		}
	}
	return nil
}

// values returns the values of one key of the repository's configuration. Includes
// are not followed.
func (r *hostRepo) values(ctx context.Context, g *runner, key string) ([]string, error) {
	out, err := g.run(ctx, call{args: []string{"config", "--file", r.config, "--no-includes", "--null", "--get-all", key}})
	if exitCode(err) == 1 {
		return nil, nil
	}
	if err != nil {
		return nil, refuseRepo(r.path, ".git/config: %v", err)
	}
	values := strings.Split(string(out), "\x00")
	return values[:len(values)-1], nil
}

// refs returns the references, by name.
func (r *hostRepo) refs() (map[string]string, error) {
	repo, err := gitread.Open(files{r.root}, ".git")
	if err != nil {
		return nil, refuseRepo(r.path, "%v", err)
	}
	defer repo.Close()
	refs, err := repo.Refs()
	if err != nil {
		return nil, refuseRepo(r.path, "its references: %v", err)
	}
	return refs, nil
}

// defaultBase is main, or master in a repository that has only that.
func (r *hostRepo) defaultBase() (string, error) {
	refs, err := r.refs()
	if err != nil {
		return "", err
	}
	has := func(branch string) bool {
		return refs["refs/heads/"+branch] != "" || refs["refs/remotes/origin/"+branch] != ""
	}
	if !has("main") && has("master") {
		return "master", nil
	}
	return "main", nil
}

// baseCommit returns the commit of a base: a branch, a branch of the remote
// repository, or the id of a commit.
func (r *hostRepo) baseCommit(base string) (string, error) {
	refs, err := r.refs()
	if err != nil {
		return "", err
	}
	for _, name := range []string{"refs/heads/" + base, "refs/remotes/" + base, "refs/remotes/origin/" + base} {
		if id := refs[name]; id != "" {
			return id, nil
		}
	}
	if isObjectID(base) {
		return base, nil
	}
	hint := "`--base` names a branch of the repository"
	if len(refs) == 0 {
		hint = "the repository has no commit: make one in it, with `git commit`"
	}
	return "", api.Missing("branch", quote.Arg(base), hint)
}

func isObjectID(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 40 && strings.ToLower(s) == s
}

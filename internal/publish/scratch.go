package publish

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// scratch is the directory in which everything is made before the host's repository
// is touched.
type scratch struct {
	dir *fsx.Dir
	at  string
	git *runner

	extracted int64 // bytes of objects that were written to files
}

// newScratch uses an empty directory that no other user can enter.
func newScratch(at string, git *runner) (*scratch, error) {
	dir, err := fsx.OpenRoot(at)
	if err != nil {
		return nil, err
	}
	return &scratch{dir: dir, at: at, git: git}, nil
}

func (s *scratch) path(name string) string { return s.at + "/" + name }

// repo is the repository that the commit is made in.
func (s *scratch) repo() string { return s.path("repo.git") }

// in returns a call in that repository.
func (s *scratch) in(args ...string) call { return call{args: args, repo: s.repo(), dir: s.at} }

// initRepo makes an empty repository without templates.
func (s *scratch) initRepo(ctx context.Context, name string) error {
	_, err := s.git.run(ctx, call{args: []string{"init", "--quiet", "--bare", "--template=", "--initial-branch=none", s.path(name)}, dir: s.at})
	return err
}

// borrow is the name of the reference by which the base commit is fetched.
const borrow = "refs/heads/base"

// fetch copies the files of a commit into the scratch repository. A second
// repository stands between: it has nothing of the host's but the objects, and it
// sends only what the commit needs. The receiving side computes the hash of each
// object and checks its form, so that no index, cache or object of the host has to
// be believed.
func (s *scratch) fetch(ctx context.Context, repo *hostRepo, commit string) error {
	if err := s.initRepo(ctx, "repo.git"); err != nil {
		return err
	}
	if err := s.initRepo(ctx, "from.git"); err != nil {
		return err
	}
	if err := s.dir.MkdirAll("from.git/objects/info", 0o700); err != nil {
		return err
	}
	if err := fsx.WriteFile(s.dir, "from.git/objects/info/alternates", []byte(repo.path+"/.git/objects\n"), 0o600); err != nil {
		return err
	}
	from := s.path("from.git")
	kind, err := s.git.line(ctx, call{args: []string{"cat-file", "-t", commit}, repo: from})
	if err == nil && kind != "commit" {
		return refuseRepo(repo.path, "%s is not a commit", commit)
	}
	if err == nil {
		_, err = s.git.run(ctx, call{args: []string{"update-ref", borrow, commit}, repo: from})
	}
	if err == nil {
		c := s.in("fetch", "--quiet", "--no-tags", "--no-auto-maintenance", "--depth=1", "--upload-pack=git-upload-pack", from, borrow+":"+borrow)
		c.protocols = "file"
		_, err = s.git.run(ctx, c)
	}
	if err == nil {
		err = s.dir.RemoveAll("from.git")
	}
	if err != nil {
		return api.Failf(api.CodePublish, err, "copy the base commit %s", commit)
	}
	return nil
}

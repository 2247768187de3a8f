package publish

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// packs is where a repository keeps packed objects. git removes what begins with
// tmp_ there.
const packs = ".git/objects/pack"

// freeBranch refuses the name of a branch that exists, or that would be a directory
// or a file of an existing one.
func (r *hostRepo) freeBranch(branch string) error {
	refs, err := r.refs()
	if err != nil {
		return err
	}
	name := "refs/heads/" + branch
	for other := range refs {
		if other == name || strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/") {
			return branchExists(r.path, strings.TrimPrefix(other, "refs/heads/"))
		}
	}
	_, err = r.root.Lstat(".git/" + name + ".lock")
	if err == nil {
		return api.Refusef(api.CodeBusy, "try again when git has ended", "another program changes the branch %s", quote.Arg(branch))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}

func branchExists(repo, branch string) error {
	return api.Refusef(api.CodeExists, "choose another name with --branch", "%s has the branch %s already", quote.Path(repo), quote.Arg(branch))
}

// addBranch writes the new objects to the host's repository, and then the branch. An
// interruption before the last step leaves only objects that nothing refers to,
// which git removes in time.
func (w *Work) addBranch(ctx context.Context) error {
	if err := w.repo.freeBranch(w.opt.Branch); err != nil {
		return err
	}
	name, err := w.pack(ctx)
	if err != nil {
		return err
	}
	failpoint.Hit("publish.packed")
	for _, ext := range []string{".pack", ".idx"} {
		if err := w.copyIn(path.Join("out", name+ext), path.Join(packs, name+ext)); err != nil {
			return err
		}
		failpoint.Hit("publish.object")
	}
	if err := syncDir(w.repo.root, packs); err != nil {
		return err
	}
	return w.writeRef()
}

// pack writes the commits that the base does not have to a pack in the scratch
// directory, and returns its name.
func (w *Work) pack(ctx context.Context) (string, error) {
	if err := w.s.dir.Mkdir("out", 0o700); err != nil {
		return "", err
	}
	c := w.s.in("pack-objects", "--quiet", "--revs", w.s.path("out/pack"))
	c.stdin = strings.NewReader(w.Commit + "\n^" + w.BaseCommit + "\n")
	id, err := w.s.git.line(ctx, c)
	if err != nil {
		return "", err
	}
	return "pack-" + id, nil
}

// copyIn copies a file of the scratch directory to the repository. An existing file
// of the name stays: it is named after its contents.
func (w *Work) copyIn(from, to string) error {
	src, err := w.s.dir.OpenFile(from)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := w.repo.root.MkdirAll(packs, 0o755); err != nil {
		return err
	}
	tmp, err := w.newFile(func(dst io.Writer) error { _, err := io.Copy(dst, src); return err }, 0o444)
	if err != nil {
		return err
	}
	err = w.repo.root.Rename(tmp, w.repo.root, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, fs.ErrExist) {
		return w.repo.root.Remove(tmp)
	}
	return err
}

// newFile writes a durable file under a name that git takes for garbage.
func (w *Work) newFile(write func(io.Writer) error, mode uint32) (string, error) {
	tmp := path.Join(packs, "tmp_forkcell_"+w.opt.ID)
	f, err := w.repo.root.Create(tmp, mode)
	if err != nil {
		return "", err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, w.repo.root.Remove(tmp))
	}
	return tmp, nil
}

// writeRef makes the branch, if nothing has its name.
func (w *Work) writeRef() error {
	ref := ".git/refs/heads/" + w.opt.Branch
	if err := w.repo.root.MkdirAll(path.Dir(ref), 0o755); err != nil {
		return err
	}
	tmp, err := w.newFile(func(f io.Writer) error { _, err := io.WriteString(f, w.Commit+"\n"); return err }, 0o644)
	if err != nil {
		return err
	}
	failpoint.Hit("publish.ref")
	if err := w.repo.freeBranch(w.opt.Branch); err != nil {
		return errors.Join(err, w.repo.root.Remove(tmp))
	}
	err = w.repo.root.Rename(tmp, w.repo.root, ref, unix.RENAME_NOREPLACE)
	if errors.Is(err, fs.ErrExist) {
		return errors.Join(branchExists(w.repo.path, w.opt.Branch), w.repo.root.Remove(tmp))
	}
	if err != nil {
		return errors.Join(err, w.repo.root.Remove(tmp))
	}
	return syncDir(w.repo.root, path.Dir(ref))
}

func syncDir(root *fsx.Dir, name string) error {
	d, err := root.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// BranchCommit returns the commit of a branch of the repository in a directory of the
// host; "" if there is none.
func BranchCommit(repo, branch string) (string, error) {
	root, err := fsx.OpenRoot(repo)
	if err != nil {
		return "", err
	}
	defer root.Close()
	refs, err := (&hostRepo{root: root, path: repo}).refs()
	return refs["refs/heads/"+branch], err
}

package outgoing

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

// Place is where a directory of the host is. The zero value is the root of a repository.
type Place struct {
	// above is the path of the directory from the root of the repository or from the
	// user's home that it is in.
	above string
	// git are the directories of repositories among it and those above it, as above.
	git []string
	// named is what the settings of the directory and of those above it name.
	named []naming
}

// naming is what the settings of a directory name, and the path of the gate's directory
// in it.
type naming struct {
	*secretfiles.Named
	below string
}

// PlaceOf returns the place of a directory of the host, from the root of the repository
// or from the user's home that it is in, whichever is nearer, and without both from the
// root of the host: the names of control files are compared from there, so that
// "authorized_keys" is one where the directory is "~/.ssh". Links in the path of the
// directory are followed, and it need not exist.
func PlaceOf(dir string) (Place, error) {
	real, err := fsx.RealPath(dir)
	if err != nil {
		return Place{}, err
	}
	home, _ := os.UserHomeDir() // without one, only repositories count
	if home, err = fsx.RealPath(home); err != nil {
		home = ""
	}
	root := real
	for root != "/" && root != home && !has(root, ".git") {
		root = filepath.Dir(root)
	}
	below := func(p string) string { return strings.TrimPrefix(strings.TrimPrefix(p, root), "/") }
	place := Place{above: below(real)}
	for at := real; ; at = filepath.Dir(at) {
		if isGitDir(at) {
			place.git = append(place.git, below(at))
		}
		if err := place.obey(at, strings.TrimPrefix(strings.TrimPrefix(real, at), "/")); err != nil {
			return place, err
		}
		if at == root {
			return place, nil
		}
	}
}

// obey reads the settings of a directory of the host. below is the path of the place in
// it.
func (p *Place) obey(at, below string) error {
	dir, err := fsx.OpenRoot(at)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	named, err := secretfiles.FindNamed(secretfiles.InDir(dir), at, true)
	p.named = append(p.named, naming{named, below})
	return err
}

// has reports whether a directory has a name.
func has(dir, name string) bool {
	_, err := os.Lstat(dir + "/" + name)
	return err == nil
}

// isGitDir reports whether a directory of the host is that of a repository.
func isGitDir(dir string) bool {
	var names []string
	for _, name := range secretfiles.GitDirNames() {
		if has(dir, name) {
			names = append(names, name)
		}
	}
	return secretfiles.IsGitDir(names)
}

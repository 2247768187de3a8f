package outgoing

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/forkcell/forkcell/internal/fsx"
)

// Above returns the path of a directory of the host from the root of the repository or
// from the user's home that it is in, whichever is nearer, and without both from the
// root of the host: the names of control files are compared from there, so that
// "authorized_keys" is one where the directory is "~/.ssh". Links in the path of the
// directory are followed, and it need not exist.
func Above(dir string) (string, error) {
	real, err := fsx.RealPath(dir)
	if err != nil {
		return "", err
	}
	home, _ := os.UserHomeDir() // without one, only repositories count
	if home, err = fsx.RealPath(home); err != nil {
		home = ""
	}
	root := real
	for root != "/" && root != home && !hasGit(root) {
		root = filepath.Dir(root)
	}
	return strings.TrimPrefix(strings.TrimPrefix(real, root), "/"), nil
}

// hasGit reports whether a directory is the root of a work tree.
func hasGit(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, ".git"))
	return err == nil
}

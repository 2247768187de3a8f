package session

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Workspace is a directory that a session may work on.
type Workspace struct {
	// Root is its real path: the root of the repository, if it is one.
	Root string
	// Below is the path of the given directory below the root.
	Below string
	// Git reports whether it is the work tree of a git repository.
	Git bool
}

// Admission decides which directories a session may work on.
type Admission struct {
	// Home is the operator's home directory.
	Home string
	// StateDirs returns the directories below it in which agents keep their state. Hidden
	// ones may be left out without hidden.
	StateDirs func(hidden bool) ([]string, error)
	// NonGit admits directories that are no git repository.
	NonGit bool
}

// secretDirs are directories below a home that hold secrets: keys and logins, profiles of
// browsers, wallets.
func secretDirs() []string {
	return []string{
		".ssh", ".aws", ".azure", ".config", ".docker", ".npm", ".gem", ".gnupg", ".kube", ".password-store", ".mozilla",
		".thunderbird", ".local/share/keyrings", ".cache/github-copilot", ".claude", ".codex", ".copilot", ".gemini",
		".cargo", ".m2", ".oci", ".pki", ".terraform.d", ".local/share/kwalletd", ".var/app", "snap/firefox", "snap/chromium",
		".bitcoin", ".litecoin", ".dogecoin", ".zcash", ".bitmonero", ".ethereum", ".electrum", ".electrum-ltc",
	}
}

// stateNames are names of directories in which agents keep their state, wherever they
// are.
func stateNames() []string { return []string{".claude", ".codex", ".copilot", ".gemini", ".opencode"} }

// Admit finds the workspace of a directory: the repository that it is in, else the
// directory itself. A refusal is an api.Error of the kind Refused.
func (a Admission) Admit(dir string) (Workspace, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Workspace{}, err
	}
	given, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Workspace{}, api.Usagef("", "workspace %s: %v", quote.Path(dir), quote.Cause(err))
	}
	info, err := os.Stat(given)
	if err != nil || !info.IsDir() {
		return Workspace{}, api.Usagef("", "workspace %s: it is not a directory", quote.Path(dir))
	}
	if isBare(given) {
		return Workspace{}, refused("clone it, and start the session in the clone", "%s is a bare git repository: it has no files to work on", given)
	}
	root, isGit := a.repository(given)
	if err := a.sensitive(root); err != nil {
		return Workspace{}, err
	}
	if isGit {
		err = checkGit(root)
	} else if !a.NonGit {
		err = refused("--allow-nongit admits it (over the API, allow_nongit): instruction files are then used as they are", "%s is not a git repository", root)
	}
	below, relErr := filepath.Rel(root, given)
	return Workspace{Root: root, Below: below, Git: isGit}, errors.Join(err, relErr)
}

func refused(hint, format, path string) error {
	return api.Refusef(api.CodeAdmission, hint, "the workspace was refused: "+format, quote.Path(path))
}

// repository returns the nearest directory at or above dir that has a .git.
func (a Admission) repository(dir string) (root string, isGit bool) {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at + "/.git"); err == nil {
			return at, true
		}
		if at == filepath.Dir(at) || at == a.Home {
			return dir, false
		}
	}
}

// sensitive refuses directories whose files are not those of a project.
func (a Admission) sensitive(root string) error {
	const hint = "choose the directory of one project"
	if root == "/" {
		return refused(hint, "%s is the whole host", root)
	}
	if a.Home != "" {
		home := a.Home
		if real, err := filepath.EvalSymlinks(home); err == nil {
			home = real
		}
		if root == home || strings.HasPrefix(home, root+"/") {
			return refused(hint, "%s is your home, or holds it", root)
		}
		state, err := a.StateDirs(strings.Contains(root, "/."))
		if err != nil {
			return api.Usagef("", "%v", err)
		}
		for _, name := range append(secretDirs(), state...) {
			secret := home + "/" + name
			switch {
			case fsx.Within(root, secret):
				return refused(hint, "%s is in a directory that holds secrets or the state of an agent", root)
			case fsx.Within(secret, root):
				return api.Refusef(api.CodeAdmission, hint, "the workspace was refused: %s holds %s, a place of secrets or of an agent's state",
					quote.Path(root), quote.Path(secret))
			}
		}
	}
	if slices.ContainsFunc(strings.Split(root, "/"), func(part string) bool { return slices.Contains(stateNames(), strings.ToLower(part)) }) {
		return refused(hint, "%s is in a directory of an agent's state", root)
	}
	return nil
}

// checkGit refuses a work tree whose git directory is elsewhere.
func checkGit(root string) error {
	info, err := os.Lstat(root + "/.git")
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return nil
	case info.Mode()&fs.ModeSymlink != 0:
		return refused("make .git a directory", "%s has a git directory elsewhere, behind a symbolic link", root)
	}
	if !info.Mode().IsRegular() {
		return refused("make .git a directory", "%s has a .git that is no directory and no file", root)
	}
	main, submodule := mainWorkTree(root)
	hint, what := "start the session in the main work tree", "linked work tree"
	if submodule {
		hint, what = "start the session in the repository that it is a part of", "submodule"
	}
	if main != "" {
		hint += ": --workspace " + quote.Arg(main)
	}
	return refused(hint, "%s is a "+what+": its git directory is elsewhere", root)
}

// mainWorkTree returns the work tree that the .git file of a linked one or of a
// submodule names, and whether it is that of a submodule; "" if it names none.
func mainWorkTree(root string) (main string, submodule bool) {
	dir, err := fsx.OpenRoot(root)
	if err != nil {
		return "", false
	}
	defer dir.Close()
	f, err := dir.OpenFile(".git")
	if err != nil {
		return "", false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", false
	}
	to, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
	if ok && !filepath.IsAbs(to) {
		to = filepath.Join(root, to)
	}
	main, inside, found := strings.Cut(to, "/.git/")
	if !ok || !found {
		return "", false
	}
	return main, strings.HasPrefix(inside, "modules/")
}

// isBare reports whether a directory looks like a git repository without files.
func isBare(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs", "config"} {
		if _, err := os.Stat(dir + "/" + name); err != nil {
			return false
		}
	}
	return true
}

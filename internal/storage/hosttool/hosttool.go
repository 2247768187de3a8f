// Package hosttool finds the programs of the host that forkcell itself starts: git,
// package tools, commands that print credentials, pagers. What commands in cells can have
// written is never one of them.
//
// It knows directories only: no cells, and not which program is started for what.
package hosttool

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// errNotFound means that no program of a name may be started.
var errNotFound = errors.New("no such program in the directories of PATH that no cell has written")

// Finder finds programs along a search path.
type Finder struct{ dirs, closed []string }

// ExcludedDirs returns the directories that a finder leaves out, with everything below them.
type ExcludedDirs func() ([]string, error)

// In returns a finder along the absolute directories of a PATH, without those below
// closed directories, wherever links lead. Only the system's directories are left if the
// closed ones cannot be known. nil closes none.
func In(path string, closed ExcludedDirs) Finder {
	f := Finder{}
	dirs := filepath.SplitList(path)
	if closed != nil {
		list, err := closed()
		if err != nil {
			dirs = slices.DeleteFunc(dirs, func(d string) bool { return !slices.Contains(systemDirs(), d) })
		}
		for _, d := range list {
			if real, err := fsx.RealPath(d); err == nil {
				d = real
			}
			f.closed = append(f.closed, d)
		}
	}
	for _, d := range dirs {
		if filepath.IsAbs(d) && !f.isClosed(d) {
			f.dirs = append(f.dirs, d)
		}
	}
	return f
}

// System returns a finder of the system's own programs. It asks no variable.
func System() Finder { return Finder{dirs: systemDirs()} }

func systemDirs() []string {
	return []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
}

// isClosed reports whether a path leads into a closed directory. One that cannot be
// followed does.
func (f Finder) isClosed(path string) bool {
	real, err := fsx.RealPath(path)
	return err != nil || slices.ContainsFunc(f.closed, func(d string) bool { return fsx.Within(real, d) })
}

// Look returns the absolute path of a program. A name with a slash is no name of a
// program.
func (f Finder) Look(name string) (string, error) {
	if name == "" || strings.Contains(name, "/") {
		return "", errNotFound
	}
	for _, dir := range f.dirs {
		if path, err := exec.LookPath(dir + "/" + name); err == nil && !f.isClosed(path) {
			return path, nil
		}
	}
	return "", errNotFound
}

// Path returns the directories as the value of a PATH: for the programs that a program
// starts in its turn.
func (f Finder) Path() string { return strings.Join(f.dirs, ":") }

// Env returns an environment of K=V in which PATH, if it is set, has the finder's
// directories.
func (f Finder) Env(env []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	if len(out) < len(env) {
		out = append(out, "PATH="+f.Path())
	}
	return out
}

// InEnv is In along the PATH of an environment of K=V, whose last value counts.
func InEnv(env []string, closed ExcludedDirs) Finder {
	path := ""
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	return In(path, closed)
}

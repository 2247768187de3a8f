package adapter

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/text/quote"
)

// Installation is an agent's program on the host, and what a cell must show of it.
type Installation struct {
	// Found is the path on PATH, Program the file that it leads to.
	Found   string `json:"found"`
	Program string `json:"program"`
	// Command executes the program: its path, or an interpreter and the path.
	Command []string `json:"command"`
	// Show are the paths of the host that the cell must show, read-only. What every
	// cell shows is not among them.
	Show []string `json:"show"`
	// PathDirs are directories that the program expects on PATH.
	PathDirs []string `json:"path_dirs"`
	// Version is empty if it cannot be known without starting the program.
	Version string `json:"version"`
}

// ErrNotInstalled means that the host does not have the program.
var ErrNotInstalled = errors.New("not installed")

// Find looks for the agent's program in the directories of a PATH.
func (a *Adapter) Find(path string) (*Installation, error) {
	for _, name := range a.Program.Names {
		if found := onPath(path, name); found != "" {
			return a.installation(path, found)
		}
	}
	return nil, fmt.Errorf("%s: %w: none of %s is on PATH", a.Name, ErrNotInstalled, strings.Join(a.Program.Names, ", "))
}

// FindCommand looks for another program, for the adapter that has none of its own.
func (a *Adapter) FindCommand(path, name string) (*Installation, error) {
	found := name
	if !strings.Contains(name, "/") {
		found = onPath(path, name)
	}
	if found == "" {
		return nil, fmt.Errorf("%s: %w: it is not on PATH", quote.Arg(name), ErrNotInstalled)
	}
	return a.installation(path, found)
}

// onPath returns the executable of a name in the absolute directories of a PATH. A
// relative directory would depend on where the user is.
func onPath(path, name string) string {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file
		}
	}
	return ""
}

func (a *Adapter) installation(path, found string) (*Installation, error) {
	found, err := filepath.Abs(found)
	if err != nil {
		return nil, err
	}
	program, err := filepath.EvalSymlinks(found)
	if err != nil {
		return nil, err
	}
	in := &Installation{Found: found, Program: program, Command: []string{program}, Show: []string{}, PathDirs: []string{}}
	in.show(tree(program))
	in.Version = a.versionOf(program)
	interpreter, err := interpreterOf(program)
	if err != nil || interpreter == "" {
		return in, err
	}
	return in, in.interpret(path, interpreter)
}

// interpret makes the installation one of a script.
func (in *Installation) interpret(path, interpreter string) error {
	found := interpreter
	if !filepath.IsAbs(interpreter) {
		// An interpreter beside the program is the one that it was installed with.
		beside := filepath.Dir(in.Found)
		if found = onPath(beside+":"+path, interpreter); found == "" {
			return fmt.Errorf("%s: %w: its interpreter %s is not on PATH", quote.Path(in.Found), ErrNotInstalled, quote.Arg(interpreter))
		}
	}
	real, err := filepath.EvalSymlinks(found)
	if err != nil {
		return err
	}
	in.show(real)
	in.Command = []string{real, in.Program}
	if dir := filepath.Dir(real); !shownAlways(dir) {
		in.PathDirs = append(in.PathDirs, dir)
	}
	return nil
}

// show adds a path, unless every cell shows it.
func (in *Installation) show(name string) {
	if !shownAlways(name) && !slices.ContainsFunc(in.Show, func(s string) bool { return name == s || strings.HasPrefix(name, s+"/") }) {
		in.Show = append(in.Show, name)
	}
}

// shownAlways reports whether a path is in a directory of the system that cells show.
func shownAlways(name string) bool {
	for _, dir := range []string{"/usr", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc"} {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

// tree returns what belongs to a program: the node_modules directory that its package
// is in, because packages find their parts in sibling packages, else the file alone.
func tree(program string) string {
	const modules = "/node_modules/"
	if i := strings.Index(program, modules); i >= 0 {
		return program[:i+len(modules)-1]
	}
	return program
}

// maxShebang bounds the first line of a script.
const maxShebang = 512

// interpreterOf returns the interpreter in the first line of a script; "" if the file
// is no script. It is a name without slashes if env looks for it.
func interpreterOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, maxShebang)).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	rest, isScript := bytes.CutPrefix(line, []byte("#!"))
	words := strings.Fields(string(rest))
	if !isScript || len(words) == 0 {
		return "", nil
	}
	if filepath.Base(words[0]) != "env" {
		return words[0], nil
	}
	words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") || strings.Contains(w, "=") })
	if len(words) == 0 {
		return "", fmt.Errorf("%s: its first line names no interpreter", quote.Path(file))
	}
	return words[0], nil
}

// maxManifest bounds a package.json.
const maxManifest = 1 << 20

// versionOf returns the version of a program without starting it: that of its npm
// package, or a last part of the path that is a version.
func (a *Adapter) versionOf(program string) string {
	for dir := filepath.Dir(program); a.Program.Package != "" && len(dir) > 1; dir = filepath.Dir(dir) {
		if v := packageVersion(dir+"/package.json", a.Program.Package); v != "" {
			return v
		}
		if filepath.Base(dir) == "node_modules" {
			break
		}
	}
	if last := filepath.Base(program); isVersion(last) {
		return last
	}
	return ""
}

func packageVersion(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	var manifest struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	if json.NewDecoder(io.LimitReader(f, maxManifest)).Decode(&manifest) != nil || manifest.Name != name || !isVersion(manifest.Version) {
		return ""
	}
	return manifest.Version
}

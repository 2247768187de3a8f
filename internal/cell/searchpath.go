package cell

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/policy"
)

// baseDirs are where every cell looks for programs.
func baseDirs() []string {
	return []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
}

// searchPath makes a cell's PATH: the usual directories, those of the caller's
// PATH that the cell shows, and those of the paths that the operator shows. A
// directory that the caller prefers to the usual ones comes before them.
func (e *Engine) searchPath(p *policy.Policy, req runRequest, shown []string) string {
	var before, after []string
	usual := false
	callers, _ := e.caller.lookupEnv("PATH")
	for _, dir := range filepath.SplitList(callers) {
		switch {
		case slices.Contains(baseDirs(), dir):
			usual = true
		case !shows(p, req, shown, dir):
		case usual:
			after = append(after, dir)
		default:
			before = append(before, dir)
		}
	}
	dirs := slices.Concat(before, baseDirs(), after)
	for _, p := range shown {
		dirs = append(dirs, programDirs(p)...)
	}
	var once []string
	for _, dir := range dirs {
		if !slices.Contains(once, dir) {
			once = append(once, dir)
		}
	}
	return strings.Join(once, ":")
}

// shows reports whether a directory of the host is in the cell under its own
// name, with all that its name leads through.
func shows(p *policy.Policy, req runRequest, shown []string, dir string) bool {
	if !path.IsAbs(dir) || path.Clean(dir) != dir || strings.ContainsAny(dir, ":\n") || !isDir(dir) {
		return false
	}
	visible := slices.Clone(shown)
	if req.Root == "" || req.Root == rootHost || req.Root == rootHostOverlay {
		listed := policy.DefaultReadOnly()
		if p.Filesystem.Given {
			listed = slices.Concat(p.Filesystem.ReadOnly, p.Filesystem.ReadWrite)
		}
		visible = append(visible, listed...)
	}
	real, err := realPath(dir)
	below := func(place string) func(string) bool { return func(v string) bool { return within(place, v) } }
	return err == nil && slices.ContainsFunc(visible, below(dir)) && slices.ContainsFunc(visible, below(real))
}

// programDirs are the directories of a shown path that programs are looked for
// in.
func programDirs(shown string) []string {
	info, err := os.Stat(shown)
	if err != nil || !info.IsDir() {
		return nil
	}
	if bin := path.Join(shown, "bin"); isDir(bin) {
		return []string{shown, bin}
	}
	return []string{shown}
}

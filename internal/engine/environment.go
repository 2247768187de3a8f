package engine

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// buildEnv makes the command's environment. Only the caller's variables that the
// policy names are passed on. The operator's settings take precedence.
func (e *Engine) buildEnv(p *policy.Policy, req runRequest, shown []string, cached bool) ([]string, error) {
	env := []string{
		"PATH=" + e.searchPath(p, req, shown), "HOME=/home/sandbox", "USER=sandbox", "LOGNAME=sandbox", "SHELL=/bin/sh",
		"LANG=C.UTF-8", "TMPDIR=/tmp", "FORKCELL=1",
	}
	if cached {
		env = append(env, cacheEnv()...)
	}
	if req.TTY && req.Term != "" {
		env = append(env, "TERM="+req.Term)
	}
	if email := e.Caller.GitUser().Email; email != "" {
		env = append(env, "EMAIL="+email)
	}
	given := e.Caller.InheritedVariables(p)
	for _, v := range p.Environment.Set {
		given = append(given, v.Name+"="+v.Value)
	}
	given = append(given, req.Env...)
	for _, kv := range given {
		name, _, isPair := strings.Cut(kv, "=")
		if !isPair || name == "" || strings.IndexByte(kv, 0) >= 0 {
			return nil, api.Usagef("nothing is inherited: give NAME=VALUE", "bad environment entry %s", quote.Arg(kv))
		}
	}
	env = driver.WithVariables(env, given)
	if req.packages {
		env = withPackages(env)
	}
	return env, nil
}

func envNames(env []string) []string {
	names := make([]string, 0, len(env))
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, quote.Line(name))
	}
	slices.Sort(names)
	return names
}

// shownPaths checks the host paths that the operator wants to show.
func (e *Engine) shownPaths(paths []string) ([]string, error) {
	for i, p := range paths {
		clean, err := e.shownPath("--ro", p)
		if err != nil {
			return nil, err
		}
		paths[i] = clean
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// shownPath checks a host path that the operator wants to show read-only.
func (e *Engine) shownPath(flag, p string) (string, error) {
	if !filepath.IsAbs(p) {
		return "", api.Usagef("give an absolute path", "%s %s is not absolute", flag, quote.Path(p))
	}
	p = filepath.Clean(p)
	if _, err := os.Stat(p); err != nil {
		return "", api.Usagef("", "%s %s: %v", flag, quote.Path(p), err)
	}
	if p == "/" {
		return "", api.Refusef(api.CodeOverlap, "name the directories that are needed", "%s / would show the whole host", flag)
	}
	for _, never := range []string{"/run", "/var/run", "/proc", "/sys", "/dev"} {
		if fsx.Within(p, never) {
			return "", api.Refusef(api.CodeOverlap, "copy the file somewhere else", "%s %s: %s is never shown in a cell", flag, quote.Path(p), never)
		}
	}
	return p, e.RefuseOverlap(flag, p)
}

// baseDirs returns the directories in which every cell looks for programs.
func baseDirs() []string {
	return []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
}

// searchPath makes a cell's PATH: the usual directories, those of the caller's
// PATH that the cell shows, and those of the paths that the operator shows. A
// directory that the caller prefers to the usual ones comes before them.
func (e *Engine) searchPath(p *policy.Policy, req runRequest, shown []string) string {
	var before, after []string
	usual := false
	callers, _ := e.Caller.LookupEnv("PATH")
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

// shows reports whether a directory of the host is in the cell under the same name,
// with everything that its path leads through.
func shows(p *policy.Policy, req runRequest, shown []string, dir string) bool {
	if !path.IsAbs(dir) || path.Clean(dir) != dir || strings.ContainsAny(dir, ":\n") || !fsx.IsDir(dir) {
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
	real, err := fsx.RealPath(dir)
	below := func(place string) func(string) bool { return func(v string) bool { return fsx.Within(place, v) } }
	return err == nil && slices.ContainsFunc(visible, below(dir)) && slices.ContainsFunc(visible, below(real))
}

// programDirs returns the directories of a shown path to look for programs in.
func programDirs(shown string) []string {
	info, err := os.Stat(shown)
	if err != nil || !info.IsDir() {
		return nil
	}
	if bin := path.Join(shown, "bin"); fsx.IsDir(bin) {
		return []string{shown, bin}
	}
	return []string{shown}
}

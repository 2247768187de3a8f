package engine

import (
	"path"
	"slices"

	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// cacheTool is a tool whose cache cells share: the variable that names its cache,
// and the parts of the cache that are shared.
type cacheTool struct {
	name string
	// variable is the environment variable with the path of the tool's cache; dir
	// is that path, relative to home.CachePath.
	variable, dir string
	// source are the directories in dir that cells of one source directory share,
	// except those in except; "." is all of it.
	source, except []string
	// home reports whether all cells of the home share a path in dir. It accepts
	// only files that the tool checks against the digests of a lock file at each
	// use, and no path that could block another, such as a file in the place of a
	// directory. A nil home shares no path.
	home func(p string) bool
}

// cacheTools returns the tools. The tool checks the files selected by home at each
// use:
//   - go checks a .mod against go.sum, and a .zip that has no .ziphash. It does not
//     check a .ziphash, an unpacked module or an .info. Toolchains are not in go.sum.
//   - npm finds packages of a lock file by their digest in content-v2, and checks
//     them. It does not check the entries of index-v5.
//   - pip, cargo and the build cache of go check nothing.
func cacheTools() []cacheTool {
	return []cacheTool{
		{
			name: "go-modules", variable: "GOMODCACHE", dir: "go/mod", source: []string{"."}, except: []string{"cache/vcs", "cache/lock"},
			home: isGoDownload,
		},
		{name: "go-build", variable: "GOCACHE", dir: "go/build", source: []string{"."}},
		{
			name: "npm", variable: "npm_config_cache", dir: "npm", source: []string{"_cacache/content-v2", "_cacache/index-v5"},
			home: isNPMContent,
		},
		{name: "pip", variable: "PIP_CACHE_DIR", dir: "pip", source: []string{"."}},
		{name: "cargo", variable: "CARGO_HOME", dir: "cargo", source: []string{"registry/cache", "registry/index"}},
	}
}

// sharedIn reports whether a file, by its path in dir, is shared by the cells of
// one source directory, and by all cells of the home.
func (t cacheTool) sharedIn(p string) (source, home bool) {
	in := func(dirs []string) bool {
		return slices.ContainsFunc(dirs, func(d string) bool { return d == "." || fsx.Within(p, d) })
	}
	source = in(t.source) && !in(t.except)
	return source, source && t.home != nil && t.home(p)
}

// cacheEnv returns the variables with the paths of the tools' caches.
func cacheEnv() []string {
	var env []string
	for _, t := range cacheTools() {
		env = append(env, t.variable+"="+path.Join(home.CachePath, t.dir))
	}
	return env
}

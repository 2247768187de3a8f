package cell

import (
	"path"
	"slices"
)

// areaCache is the area of a cell's caches, and cachePath where it is in the cell.
const (
	areaCache = "cache"
	cachePath = "/cache"
)

// cacheTool is a tool whose cache cells share. It is the one place that says what
// a cell's tools are told, and what of their caches is shared with whom.
type cacheTool struct {
	name string
	// variable is the environment variable with the place of the tool's cache; dir
	// is that place, below cachePath.
	variable, dir string
	// source are the directories in dir that cells of one source directory share,
	// but for what is in except; "." is all of it.
	source, except []string
	// home reports of a path in dir whether all cells of the home share it: the
	// tool itself compares such a file with the digests of a lock file whenever it
	// reads it. nil is none. What else could stand in the way of another file, as
	// a file where a directory is needed, is none of them.
	home func(p string) bool
}

// cacheTools: what stands under home is checked by the tool at each use.
//   - go compares a .mod with go.sum, and a .zip when it has no .ziphash. It
//     believes a .ziphash and what is unpacked, and checks no .info. Toolchains
//     are in no go.sum.
//   - npm finds what a lock file names by its digest in content-v2, and compares
//     it. What index-v5 says about a URL is believed.
//   - pip, cargo and the build cache of go believe what they find.
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

// sharedIn reports whether a file of the tool's, by its path in dir, is shared by
// the cells of one source directory, and by all of the home.
func (t cacheTool) sharedIn(p string) (source, home bool) {
	in := func(dirs []string) bool {
		return slices.ContainsFunc(dirs, func(d string) bool { return d == "." || within(p, d) })
	}
	source = in(t.source) && !in(t.except)
	return source, source && t.home != nil && t.home(p)
}

// cacheEnv are the variables that tell a cell's tools where their caches are.
func cacheEnv() []string {
	var env []string
	for _, t := range cacheTools() {
		env = append(env, t.variable+"="+path.Join(cachePath, t.dir))
	}
	return env
}

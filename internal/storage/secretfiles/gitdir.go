package secretfiles

import (
	"path"
	"slices"
	"strings"
)

// GitDirs finds the directories of repositories in a tree: those called .git, and those
// that IsGitDir knows by what is in them.
type GitDirs struct {
	names func(dir string) ([]string, error)
	known map[string]bool
}

// FindGitDirs returns the directories of repositories in a tree. names lists the names in
// a directory; what is no directory has none.
func FindGitDirs(names func(dir string) ([]string, error)) *GitDirs {
	return &GitDirs{names, map[string]bool{}}
}

// Is reports whether a path is the directory of a repository.
func (g *GitDirs) Is(dir string) (bool, error) {
	if is, ok := g.known[dir]; ok {
		return is, nil
	}
	names, err := g.names(dir)
	if err != nil {
		return false, err
	}
	is := fold(path.Base(dir)) == ".git" || IsGitDir(names)
	g.known[dir] = is
	return is, nil
}

// Of returns the outermost directory of a repository that a path is in; "" if there is
// none.
func (g *GitDirs) Of(p string) (outermost string, err error) {
	for p != "." {
		p = path.Dir(p)
		is, err := g.Is(p)
		if err != nil {
			return "", err
		}
		if is {
			outermost = p
		}
	}
	return outermost, nil
}

// IsGitDir reports whether git takes a directory with these names for that of a
// repository, or for the part that several work trees share. Its own name does not
// matter: a link, a setting or a file called .git can lead to it, and git finds a bare
// repository by itself. Nor do the kinds of its names: git follows links.
func IsGitDir(names []string) bool {
	var head, objects, refs, commondir bool
	for _, name := range names {
		switch fold(name) {
		case "head":
			head = true
		case "objects":
			objects = true
		case "refs":
			refs = true
		case "commondir":
			commondir = true
		}
	}
	return objects && refs || head && (objects || commondir)
}

// GitDirNames returns the names by which IsGitDir knows a repository.
func GitDirNames() []string { return []string{"HEAD", "objects", "refs", "commondir"} }

// IsGitSetting reports whether a name in a directory has an effect as soon as the directory
// is that of a repository.
func IsGitSetting(name string) bool {
	name = fold(name)
	return strings.HasPrefix(name, "config") || slices.Contains([]string{"hooks", "info", "commondir", "shallow", "modules", "worktrees"}, name)
}

// ControlInGitDir is ControlFile for a path in the directory of a repository, whatever
// the name of that directory.
func ControlInGitDir(p string, isDir bool) (what string, yes bool) {
	return ControlFile(path.Join(".git", p), isDir)
}

// GitFile is what a path is in the directory of a repository.
type GitFile uint8

const (
	// GitOther may make git run something, or show the operator other contents than it
	// would send: it is a control file.
	GitOther GitFile = iota
	// GitBehind concerns what git is doing where it is, or can be made from the rest:
	// it has no meaning in another copy of the repository.
	GitBehind
	// GitDir is a directory of what follows.
	GitDir
	// GitRef is a reference, or HEAD.
	GitRef
	GitPackedRefs
	GitLog
	GitIndex
	// GitObject is a loose object.
	GitObject
	GitPack
	GitPackIndex
)

// InGitDir returns what a path in the directory of a repository is, by its name. The
// directories of submodules and work trees in it have the same files.
func InGitDir(p string, isDir bool) GitFile {
	top, below, deep := strings.Cut(p, "/")
	switch {
	case p == "" || p == ".":
		return GitDir
	case top == "modules":
		return inModules(below, isDir)
	case top == "worktrees" && !deep:
		return dirOrOther(isDir)
	case top == "worktrees":
		name, rest, _ := strings.Cut(below, "/")
		if rest == "" {
			return dirOrOther(isDir)
		}
		if first, _, _ := strings.Cut(rest, "/"); name == "" || first == "modules" || first == "worktrees" {
			return GitOther
		}
		return InGitDir(rest, isDir)
	case top == "refs":
		return inRefs(below, isDir, GitRef)
	case top == "logs":
		return inLogs(below, isDir)
	case top == "objects":
		return inObjects(below, isDir)
	case p == "info/refs" && !isDir:
		return GitBehind
	case deep:
		return GitOther
	case isDir:
		if p == "info" {
			return GitDir
		}
		return GitOther
	}
	return topFile(p)
}

// topFile returns what a file directly in the directory of a repository is.
func topFile(name string) GitFile {
	switch name {
	case "HEAD":
		return GitRef
	case "packed-refs":
		return GitPackedRefs
	case "index":
		return GitIndex
	case "COMMIT_EDITMSG", "TAG_EDITMSG", "NOTES_EDITMSG", "SQUASH_MSG", "AUTO_MERGE",
		"ORIG_HEAD", "FETCH_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "gc.log", "gc.pid", "opencode": // the last keeps an id of its own there
		return GitBehind
	}
	if strings.HasPrefix(name, "MERGE_") || strings.HasSuffix(name, ".lock") {
		return GitBehind
	}
	return GitOther
}

func dirOrOther(isDir bool) GitFile {
	if isDir {
		return GitDir
	}
	return GitOther
}

// inModules returns what a path below the directory of submodules is. Their names may
// have any number of parts, so that no name says where one begins: no control file ends
// like a path that passes.
func inModules(p string, isDir bool) GitFile {
	if isDir {
		return GitDir
	}
	_, rest, deeper := strings.Cut(p, "/")
	for ; deeper; _, rest, deeper = strings.Cut(rest, "/") {
		if top, _, _ := strings.Cut(rest, "/"); top == "modules" || top == "worktrees" {
			continue // what follows is looked at anyway
		}
		if file := InGitDir(rest, false); file != GitOther {
			return file
		}
	}
	return GitOther
}

// inRefs returns what a path below "refs" is, or below its logs.
func inRefs(p string, isDir bool, file GitFile) GitFile {
	kind, name, below := strings.Cut(p, "/")
	switch {
	case p == "":
		return dirOrOther(isDir)
	case p == "stash" && !isDir:
		return file
	case !slices.Contains([]string{"heads", "tags", "remotes", "notes"}, kind):
		return GitOther
	case isDir:
		return GitDir
	case !below:
		return GitOther
	case strings.HasSuffix(name, ".lock"):
		return GitBehind
	}
	return file
}

// PassingRef reports whether a reference may come out of a cell by its name.
func PassingRef(name string) bool {
	below, ok := strings.CutPrefix(name, "refs/")
	return ok && inRefs(below, false, GitRef) == GitRef
}

func inLogs(p string, isDir bool) GitFile {
	top, below, _ := strings.Cut(p, "/")
	switch {
	case p == "":
		return dirOrOther(isDir)
	case p == "HEAD" && !isDir:
		return GitLog
	case top == "refs":
		return inRefs(below, isDir, GitLog)
	}
	return GitOther
}

// inObjects returns what a path among the objects is. Indexes that git makes of the
// objects stay behind: they could say something else.
func inObjects(p string, isDir bool) GitFile {
	dir, name, below := strings.Cut(p, "/")
	hash, ext, _ := strings.Cut(strings.TrimPrefix(name, "pack-"), ".")
	switch {
	case isDir:
		if p == "" || !below && (isHex(dir, 2) || dir == "pack" || dir == "info") || p == "info/commit-graphs" || p == "pack/multi-pack-index.d" {
			return GitDir
		}
	case isHex(dir, 2) && isHex(name, 38):
		return GitObject
	case isHex(dir, 2) && strings.HasPrefix(name, "tmp_obj_"):
		return GitBehind
	case dir == "info" && (name == "packs" || name == "commit-graph" || strings.HasPrefix(name, "commit-graphs/")):
		return GitBehind
	case dir == "pack" && (strings.HasPrefix(name, "multi-pack-index") || strings.HasPrefix(name, "tmp_") || strings.HasPrefix(name, ".tmp-")):
		return GitBehind
	case dir == "pack" && strings.HasPrefix(name, "pack-") && isHex(hash, 40):
		switch ext {
		case "pack":
			return GitPack
		case "idx":
			return GitPackIndex
		case "rev", "bitmap", "mtimes":
			return GitBehind
		}
	}
	return GitOther
}

func isHex(s string, n int) bool { return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" }

// GitFiles calls each for each directory called .git that a path is in, with what the
// path is there. A path that is the directory itself is not in it.
func GitFiles(p string, isDir bool, each func(GitFile)) {
	for rest := p; ; {
		name, below, deeper := strings.Cut(rest, "/")
		if !deeper {
			return
		}
		if fold(name) == ".git" {
			each(InGitDir(below, isDir))
		}
		rest = below
	}
}

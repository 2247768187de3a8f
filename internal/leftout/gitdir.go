package leftout

import "path"

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

// ControlInGitDir is ControlFile for a path in the directory of a repository, whatever
// the name of that directory.
func ControlInGitDir(p string, isDir bool) (what string, yes bool) {
	return ControlFile(path.Join(".git", p), isDir)
}

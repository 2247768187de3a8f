package secretfiles

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/gitconfig"
	"github.com/forkcell/forkcell/internal/storage/gitread"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Named are the paths of a directory that its own settings name as programs, or as
// further settings: a hook manager's script is as good as a hook. The zero value names
// none.
type Named struct {
	files map[string]string // the settings that name a file, by its path
	dirs  map[string]string // the same for a directory, with all that is below it
}

// Bounds on what is read of the settings of one directory.
const (
	maxSettings    = 256 << 10
	maxSettingFile = 500
	maxIncludes    = 5
)

// settingDirs lists the directories whose files name programs, with all that is in
// them, one level deep.
func settingDirs() []string {
	return []string{
		".", ".husky", ".githooks", ".git-hooks", ".vscode", ".zed", ".devcontainer", ".claude", ".cursor", ".codex", ".gemini",
		".github/hooks", ".lefthook", ".opencode", ".kiro/hooks", ".amazonq", ".qwen", ".factory",
	}
}

// FindNamed reads the settings of a directory, which may be the root of a work tree. root
// is its absolute path, by which settings may name what is in it. onHost means that it is
// there: then the settings of a repository that is elsewhere are read too, as those of a
// linked work tree are.
func FindNamed(files gitread.Files, root string, onHost bool) (*Named, error) {
	f := &namedFinder{
		files: files, root: strings.TrimSuffix(root, "/") + "/", onHost: onHost, named: &Named{files: map[string]string{}, dirs: map[string]string{}},
	}
	if err := f.repository(); err != nil {
		return nil, err
	}
	for _, dir := range append(settingDirs(), f.hooks...) {
		if err := f.directory(f.files, dir, slices.Contains(f.hooks, dir)); err != nil {
			return nil, err
		}
	}
	return f.named, nil
}

// linkReader is implemented by trees that can tell where links lead.
type linkReader interface {
	Readlink(p string) (string, error)
}

// repository reads the settings and the hooks of the repository of the work tree, which
// may be a directory called .git or where a file or a link of this name leads, and of the
// one of which it is a part.
func (f *namedFinder) repository() error {
	text, err := f.text(f.files, ".git")
	if err != nil {
		return err
	}
	dir := ".git"
	if links, ok := f.files.(linkReader); ok {
		if target, err := links.Readlink(dir); err == nil {
			text = "gitdir: " + target
		}
	}
	if target, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), "gitdir: "); ok {
		dir = f.place(target, ".")
	}
	common, err := f.gitDir(dir)
	if err == nil && common != "" {
		_, err = f.gitDir(f.place(common, dir))
	}
	return err
}

// gitDir reads the settings and the hooks in the directory of a repository, and returns
// what its file commondir says.
func (f *namedFinder) gitDir(dir string) (common string, err error) {
	files := f.files
	if path.IsAbs(dir) {
		if !f.onHost {
			return "", nil
		}
		at, err := fsx.OpenRoot(dir)
		if err != nil {
			if isMissing(err) {
				err = nil
			}
			return "", err
		}
		defer at.Close()
		files = outsideFiles{InDir(at), dir}
	}
	for _, name := range []string{"config", "config.worktree"} {
		if err := f.gitConfig(files, path.Join(dir, name), 0); err != nil {
			return "", err
		}
	}
	if err := f.directory(files, path.Join(dir, "hooks"), true); err != nil {
		return "", err
	}
	common, err = f.text(files, path.Join(dir, "commondir"))
	return strings.TrimSpace(common), err
}

// outsideFiles is a directory of the host whose files have their absolute paths as names.
type outsideFiles struct {
	gitread.Files
	at string
}

func (e outsideFiles) name(p string) string {
	return path.Join(".", strings.TrimPrefix(strings.TrimPrefix(p, e.at), "/"))
}

func (e outsideFiles) Open(p string) (*os.File, error) { return e.Files.Open(e.name(p)) }

func (e outsideFiles) Names(p string) ([]string, error) { return e.Files.Names(e.name(p)) }

// place returns a path that a text in a directory means. It is absolute if it is not in the
// tree.
func (f *namedFinder) place(p, dir string) string {
	switch {
	case path.IsAbs(p):
	case path.IsAbs(dir):
		p = path.Join(dir, p)
	default:
		p = path.Join(f.root, dir, p)
	}
	return strings.TrimPrefix(path.Clean(p), f.root)
}

// Find reports whether settings name a path, and which. is is about the path alone, and
// a directory is named only with everything in it.
func (n *Named) Find(p string, isDir bool) (what string, yes bool) {
	if n == nil {
		return "", false
	}
	by := ""
	if !isDir {
		by = n.files[p]
	}
	for at := p; by == "" && at != "."; at = path.Dir(at) {
		by = n.dirs[at]
	}
	if by == "" {
		return "", false
	}
	return "named by " + quote.Path(by), true
}

type namedFinder struct {
	files  gitread.Files
	root   string // ends in a slash
	onHost bool
	named  *Named
	hooks  []string // the directories of hooks that settings name
	read   int      // files
}

// isMissing reports whether an error means that there is no such file or directory.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrInvalid) ||
		errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, fsx.ErrNotRegular)
}

// text reads a file of settings; "" if there is none, or if it is too large for one.
func (f *namedFinder) text(files gitread.Files, name string) (string, error) {
	if f.read++; f.read > maxSettingFile {
		return "", nil
	}
	b, err := gitread.Read(files, name, maxSettings)
	if err != nil && (isMissing(err) || len(b) > maxSettings) {
		return "", nil
	}
	return string(b), err
}

// gitConfig reads a configuration of git, and those in the tree that it includes.
func (f *namedFinder) gitConfig(files gitread.Files, name string, depth int) error {
	text, err := f.text(files, name)
	if err != nil || depth > maxIncludes {
		return err
	}
	settings, _ := gitconfig.Parse(text) // git does not start either with one that it cannot read
	for _, s := range settings {
		switch {
		case s.Section == "core" && s.Key == "hookspath":
			if p, ok := f.inTree(s.Value, "."); ok {
				f.named.dirs[p] = name
				f.hooks = append(f.hooks, p)
			}
		case (s.Section == "include" || s.Section == "includeif") && s.Key == "path":
			if p, ok := f.inTree(s.Value, path.Dir(name)); ok {
				f.named.files[p] = name
				if err := f.gitConfig(f.files, p, depth+1); err != nil {
					return err
				}
			}
		case !gitconfig.IsSafe(s):
			f.words(name, s.Value)
			if p, ok := f.inTree(s.Value, "."); ok && isPathKey(s.Key) {
				f.named.files[p] = name
			}
		}
	}
	return nil
}

// directory reads the settings in a directory.
func (f *namedFinder) directory(files gitread.Files, dir string, all bool) error {
	names, err := files.Names(dir)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		p := path.Join(dir, name)
		what, is := ControlFile(p, false)
		if !is && !all || dir == "." && what == gitSetting {
			continue
		}
		text, err := f.text(files, p)
		if err != nil {
			return err
		}
		if path.Base(p) == ".envrc" {
			f.pathAdd(p, text)
		}
		f.words(p, text)
	}
	return nil
}

// pathAdd notes the directories that an environment adds to the path of programs.
func (f *namedFinder) pathAdd(by, text string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) > 1 && (fields[0] == "PATH_add" || fields[0] == "path_add") {
			if p, ok := f.inTree(strings.Trim(fields[len(fields)-1], `"'`), "."); ok {
				f.named.dirs[p] = by
			}
		}
	}
}

// roots are the ways in which settings write the directory that they are for.
func roots() []string {
	return []string{
		"$CLAUDE_PROJECT_DIR/", "${CLAUDE_PROJECT_DIR}/", "$GEMINI_PROJECT_DIR/", "${workspaceFolder}/", "${workspaceRoot}/", "$ZED_WORKTREE_ROOT/",
		"${containerWorkspaceFolder}/", "${localWorkspaceFolder}/", "$PWD/", "${PWD}/", "$(pwd)/", "$(git rev-parse --show-toplevel)/",
	}
}

// words notes the programs among the words of a text.
func (f *namedFinder) words(by, text string) {
	text = strings.ReplaceAll(text, `\"`, `"`) // as JSON has it
	for _, root := range append(roots(), f.root) {
		if root == "/" {
			continue
		}
		text = strings.ReplaceAll(text, strings.TrimSuffix(root, "/")+`"/`, " ")
		text = strings.ReplaceAll(text, root, " ")
	}
	for _, w := range strings.FieldsFunc(text, func(c rune) bool { return c <= ' ' || strings.ContainsRune("\"'`=;|&()<>,[]{}:!\\", c) }) {
		if p, ok := f.inTree(w, "."); ok && p != by && isProgram(w) {
			if _, control := ControlFile(p, false); !control {
				f.named.files[p] = by
			}
		}
	}
}

// isPathKey reports whether a key of git names a file.
func isPathKey(key string) bool {
	return strings.HasSuffix(key, "file") || key == "template" || key == "fsmonitor"
}

// isProgram reports whether a word looks like the path of a program: that of a script, or
// a path without an extension.
func isProgram(word string) bool {
	switch ext := path.Ext(word); strings.ToLower(ext) {
	case ".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php", ".lua", ".ps1", ".bat", ".cmd", ".exe":
		return true
	case "":
		return strings.Contains(word, "/")
	}
	return false
}

// inTree returns a path that a setting in a directory names, if it is in the tree.
func (f *namedFinder) inTree(p, dir string) (string, bool) {
	if path.IsAbs(dir) && p != "" && !path.IsAbs(p) {
		p, dir = path.Join(dir, p), "."
	}
	if below, inside := strings.CutPrefix(p, f.root); inside && f.root != "/" {
		p, dir = below, "."
	}
	if p == "" || path.IsAbs(p) || strings.HasPrefix(p, "~") || strings.ContainsAny(p, "*?$\x00") {
		return "", false
	}
	p = path.Join(dir, p)
	return p, p != "." && p != ".." && !strings.HasPrefix(p, "../")
}

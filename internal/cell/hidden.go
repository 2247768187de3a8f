package cell

import (
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/mount"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/workspace"
)

// shownDir is a path of the host outside the system that a cell sees because the
// operator granted it, or gave it with --ro.
type shownDir struct {
	target string // in the cell
	real   string // on the host
}

// maxHidden bounds the mounts that one cell needs to hide files.
const maxHidden = 4096

// secretBelow reports whether the secret rules leave a path out of a directory
// that it is below.
func secretBelow(dir, p string) bool {
	rules, err := leftout.New(leftout.Options{})
	if err != nil {
		return true // not reached: the defaults are valid
	}
	_, out := rules.Match(strings.TrimPrefix(p, dir+"/"), isDir(p))
	return out
}

// hiddenIn reports whether the secret rules hide a path of a directory of the host.
func hiddenIn(dir, rel string) bool {
	rules, err := leftout.New(leftout.Options{})
	if err != nil {
		return true // not reached: the defaults are valid
	}
	root, err := fsx.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	info, err := root.Lstat(rel)
	if err != nil {
		return false // what appears later is not hidden
	}
	_, v := rules.With(nil).Reading(root.OpenFile).Decide(rel, info.IsDir())
	return v == leftout.Leave
}

// secretsOf are the secret rules of a shown directory. What the operator named
// itself is shown.
func secretsOf(dir shownDir, named []string) (*leftout.Rules, error) {
	var extra []string
	for _, n := range named {
		if n != dir.real && within(n, dir.real) {
			extra = append(extra, "!"+escapePattern(strings.TrimPrefix(n, dir.real)))
		}
	}
	return leftout.New(leftout.Options{Extra: extra})
}

// escapePattern makes a pattern that matches one path.
func escapePattern(p string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, " ", `\ `).Replace(p)
}

// hideSecrets finds what the secret rules leave out of the shown directories.
// Files that appear later are not hidden, which is said of each directory.
func hideSecrets(shown []shownDir, named []string) (masks []mount.Mask, notes []string, err error) {
	for _, dir := range shown {
		if !isDir(dir.real) {
			continue
		}
		rules, err := secretsOf(dir, named)
		if err != nil {
			return nil, nil, err
		}
		found, err := workspace.SecretsIn(dir.real, rules, maxHidden-len(masks))
		if err != nil {
			return nil, nil, api.Refusef(api.CodeHidden, "show a smaller directory", "hide the secret files in %s: %v", quote.Path(dir.target), err)
		}
		for _, f := range found {
			masks = append(masks, mount.Mask{Target: path.Join(dir.target, f.Path), Dir: f.Dir})
		}
		notes = append(notes, "secret files in "+quote.Path(dir.target)+" are hidden by name: those made during the run are not")
	}
	slices.SortFunc(masks, func(a, b mount.Mask) int { return strings.Compare(a.Target, b.Target) })
	return slices.Compact(masks), notes, nil
}

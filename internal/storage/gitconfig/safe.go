package gitconfig

import (
	"slices"
	"strings"
)

// safeKeys lists the settings that are kept, by section. "*" stands for all keys of
// a section. What is not listed is removed: a new version of git may have a new
// setting that runs a program.
func safeKeys() map[string][]string {
	return map[string][]string{
		"advice":   {"*"},
		"apply":    {"ignorewhitespace", "whitespace"},
		"branch":   {"autosetupmerge", "autosetuprebase", "description", "merge", "pushremote", "rebase", "remote", "sort"},
		"checkout": {"defaultremote", "guess"},
		"color":    {"*"},
		"core": {
			"abbrev", "autocrlf", "bare", "bigfilethreshold", "checkstat", "commentchar", "compression", "eol", "filemode", "ignorecase",
			"ignorestat", "logallrefupdates", "longpaths", "precomposeunicode", "preferssymlinkrefs", "protecthfs", "protectntfs", "quotepath",
			"repositoryformatversion", "safecrlf", "sparsecheckout", "sparsecheckoutcone", "symlinks", "trustctime", "untrackedcache", "whitespace",
		},
		"diff": {
			"algorithm", "colormoved", "context", "indentheuristic", "mnemonicprefix", "noprefix", "renamelimit", "renames",
			"statgraphwidth", "submodule", "suppressblankempty", "wserrorhighlight",
		},
		"extensions": {"*"},
		"feature":    {"*"},
		"fetch":      {"fsckobjects", "parallel", "prune", "prunetags", "writecommitgraph"},
		"gc":         {"auto", "autodetach", "autopacklimit", "pruneexpire", "reflogexpire", "reflogexpireunreachable"},
		"i18n":       {"*"},
		"index":      {"*"},
		"init":       {"defaultbranch"},
		"log":        {"abbrevcommit", "date", "decorate", "diffmerges", "excludedecoration", "follow", "graphcolors", "initialdecorationset", "mailmap", "showroot"},
		"merge":      {"conflictstyle", "ff", "renamelimit", "renames", "stat"},
		"pack":       {"*"},
		"pull":       {"ff", "rebase"},
		"push":       {"autosetupremote", "default", "followtags"},
		"rebase":     {"abbreviatecommands", "autosquash", "autostash", "missingcommitscheck", "stat", "updaterefs"},
		"remote":     {"fetch", "partialclonefilter", "promisor", "prune", "pushurl", "tagopt", "url"},
		"rerere":     {"*"},
		"stash":      {"*"},
		"status":     {"*"},
		"submodule":  {"active", "branch", "ignore", "recurse", "url"},
		"tag":        {"sort"},
		"user":       {"email", "name", "useconfigonly"},
	}
}

// Options changes which settings are kept.
type Options struct {
	// Worktree keeps core.worktree: the repository of a submodule needs it.
	Worktree bool
}

// Safe returns a configuration without the settings that may run programs, read
// other files or hold credentials, and the names of those settings. A text that
// cannot be read becomes an empty configuration, and errSyntax.
func Safe(text string, opt Options) (safe string, removed []string, err error) {
	settings, err := Parse(text)
	if err != nil {
		return "", nil, err
	}
	keys := safeKeys()
	var b strings.Builder
	for _, s := range settings {
		value, ok := keep(keys, s, opt)
		if !ok || value != s.Value {
			removed = append(removed, s.withoutAddress().Name())
		}
		if ok {
			s.Value = value
			s.write(&b)
		}
	}
	slices.Sort(removed)
	return b.String(), slices.Compact(removed), nil
}

// keep returns the value that a setting keeps.
func keep(keys map[string][]string, s Setting, opt Options) (string, bool) {
	list, known := keys[s.Section]
	listed := known && (slices.Contains(list, s.Key) || slices.Contains(list, "*"))
	if s.Section == "core" && s.Key == "worktree" {
		listed = opt.Worktree
	}
	if !listed || strings.ContainsAny(s.Value+s.Subsection, "\x00") || isAddress(s.Subsection) {
		return "", false
	}
	// Git gives these to other programs, which could take them for options.
	addresses := []string{"defaultremote", "partialclone", "pushremote", "pushurl", "remote", "url"}
	if slices.Contains(addresses, s.Key) && strings.HasPrefix(s.Value, "-") {
		return "", false
	}
	return safeURL(s.Value)
}

// IsSafe reports whether a setting is one that Safe keeps.
func IsSafe(s Setting) bool {
	_, kept := keep(safeKeys(), s, Options{Worktree: true})
	return kept
}

// withoutAddress returns the setting without a subsection that may be an address: it
// may hold a credential.
func (s Setting) withoutAddress() Setting {
	if isAddress(s.Subsection) || strings.Contains(s.Subsection, "@") {
		s.Subsection = ""
	}
	return s
}

func isAddress(s string) bool { return strings.Contains(s, "://") || strings.Contains(s, "::") }

// safeURL removes the credentials of an address: the user of all but ssh, and what
// follows a question mark. It refuses an address that names a helper program
// ("ext::..."), and more than one address. Any other value stays as it is.
func safeURL(value string) (string, bool) {
	scheme, rest, ok := strings.Cut(value, "://")
	if strings.Contains(value, "::") || strings.Contains(rest, "://") {
		return "", false
	}
	if !ok {
		return value, true
	}
	authority, path, _ := strings.Cut(rest, "/")
	at := strings.LastIndex(authority, "@")
	_, _, secret := strings.Cut(authority[:max(at, 0)], ":")
	if at >= 0 && (scheme != "ssh" || secret) {
		rest = authority[at+1:] + "/" + path
	}
	rest, _, _ = strings.Cut(rest, "?")
	return scheme + "://" + rest, true
}

// write writes one setting with its section.
func (s Setting) write(b *strings.Builder) {
	b.WriteString("[" + s.Section)
	if s.Subsection != "" {
		b.WriteString(" \"" + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s.Subsection) + `"`)
	}
	b.WriteString("]\n\t" + s.Key)
	if !s.Bare {
		b.WriteString(" = \"" + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(s.Value) + `"`)
	}
	b.WriteString("\n")
}

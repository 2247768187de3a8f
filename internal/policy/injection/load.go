package injection

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Loader reads policies.
type Loader struct {
	// Names are those that a policy may use.
	Names Vocabulary
	// Home is the caller's home directory. Sources may not be in the directories
	// below it where programs keep their own secrets.
	Home string
	// Workspace is the directory of a session, which can hold no part of a policy; ""
	// if there is none yet.
	Workspace string
}

// Load reads a policy and what it includes. A malformed one is an error of the kind
// usage, one that others could have written is refused. If the file does not exist,
// the error is fs.ErrNotExist.
func (l Loader) Load(name string) (*Policy, error) { return l.load(name, l.readTrusted) }

// load reads the files of a policy with the given function.
func (l Loader) load(name string, read func(string) ([]byte, error)) (*Policy, error) {
	m := merge{Loader: l, read: read, root: path.Dir(name), policy: &Policy{
		Path: name, Documents: map[string]string{}, Credentials: map[string]Credential{},
	}, seen: map[string]bool{}}
	if err := m.file(name); err != nil {
		return nil, err
	}
	return m.policy, nil
}

// merge puts the files of one policy together.
type merge struct {
	Loader

	read   func(string) ([]byte, error)
	root   string
	policy *Policy
	seen   map[string]bool
}

func (m *merge) file(name string) error {
	if m.seen[name] {
		return malformed(name, errors.New("is included twice"))
	}
	if m.seen[name] = true; len(m.seen) > maxFiles {
		return malformed(name, fmt.Errorf("the policy has more than %d files", maxFiles))
	}
	text, err := m.read(name)
	if err != nil {
		return err
	}
	m.policy.Sources = append(m.policy.Sources, File{name, digest(text)})
	doc, err := parse(text)
	if err != nil {
		return malformed(name, err)
	}
	p := part{merge: m, name: name, dir: path.Dir(name)}
	includes, err := p.top(doc[0])
	if err != nil {
		return malformed(name, err)
	}
	// Includes come first. Nothing of theirs can be replaced: a second entry for
	// the same thing is an error.
	for _, next := range includes {
		if err := m.file(next); err != nil {
			return includeError(err, next)
		}
	}
	for _, t := range doc[1:] {
		if err := p.table(t); err != nil {
			return malformed(name, err)
		}
	}
	return nil
}

// includeError turns a missing include into a fault of the policy: only a missing
// policy itself is fs.ErrNotExist.
func includeError(err error, name string) error {
	if isMissing(err) {
		return malformed(name, errors.New("does not exist"))
	}
	return err
}

// part is one file of a policy.
type part struct {
	*merge

	name, dir string
}

// top reads the keys before the first table and returns the files to include.
func (p *part) top(t table) ([]string, error) {
	keys, err := t.only("version", "includes")
	if err != nil {
		return nil, err
	}
	if v, ok := keys["version"]; !ok {
		return nil, bad(1, "version is missing; write version = 1")
	} else if v.value != int64(1) {
		return nil, bad(v.line, "version must be 1")
	}
	list, err := keys.list("includes")
	if err != nil {
		return nil, err
	}
	for i, name := range list {
		full := path.Join(p.dir, name)
		if name == "" || path.IsAbs(name) || !strings.HasPrefix(full, strings.TrimSuffix(p.root, "/")+"/") {
			return nil, bad(keys["includes"].line, "%s: an include is relative, and below the directory of the policy", quote.Path(name))
		}
		list[i] = full
	}
	return list, nil
}

func (p *part) table(t table) error {
	switch key, isCredential := strings.CutPrefix(t.name, "credentials."); {
	case isCredential:
		return p.credential(t, key)
	case t.name == "credentials":
		return p.credentials(t)
	case t.name == "documents":
		return p.documents(t)
	case t.name == "ssh":
		return p.ssh(t)
	case t.name == "network":
		return p.network(t)
	default:
		return p.copies(t)
	}
}

// path returns an absolute path for a value that names a file.
func (p *part) path(s string) string {
	if rest, ok := strings.CutPrefix(s, "~/"); ok && p.Home != "" {
		return path.Join(p.Home, rest)
	}
	if path.IsAbs(s) {
		return path.Clean(s)
	}
	return path.Join(p.dir, s)
}

// source returns the absolute path of a source, which is not in a directory where a
// program keeps its own secrets.
func (p *part) source(line int, s string) (string, error) {
	if s == "" {
		return "", bad(line, "the path is empty")
	}
	full := p.path(s)
	if own := ownState(p.Home, full); own != "" {
		return "", bad(line, "%s is in or above %s, where a program keeps its own login; use a resolver, or a copy elsewhere", quote.Path(s), quote.Path(own))
	}
	return full, nil
}

// ownState returns the directory or file below the home in which programs keep their
// own secrets and which holds, or is below, the path; "" if there is none.
func ownState(home, full string) string {
	if home == "" {
		return ""
	}
	for _, own := range []string{
		".codex", ".claude", ".claude.json", ".copilot", ".gemini", ".config/claude-code", ".config/gh", ".config/gcloud", ".config/git",
		".config/github-copilot", ".config/op", ".cache/github-copilot", ".local/share/opencode", ".ssh", ".aws", ".docker", ".kube", ".gnupg",
		".git-credentials", ".mcp.json", ".netrc",
	} {
		place := path.Join(home, own)
		if full == place || strings.HasPrefix(full, place+"/") || strings.HasPrefix(place, strings.TrimSuffix(full, "/")+"/") {
			return "~/" + own
		}
	}
	return ""
}

// fields are the keys of a table, by name.
type fields map[string]pair

// only returns the keys of a table, all of which are known.
func (t table) only(known ...string) (fields, error) {
	out := fields{}
	var unknown []string
	line := t.line
	for _, p := range t.keys {
		if !slices.Contains(known, p.key) {
			if unknown == nil {
				line = p.line
			}
			unknown = append(unknown, quote.Arg(p.key))
		}
		out[p.key] = p
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return nil, bad(max(line, 1), "unknown key %s; known are %s", strings.Join(unknown, ", "), strings.Join(known, ", "))
	}
	return out, nil
}

func (f fields) text(key string) (string, error) {
	p, ok := f[key]
	if !ok {
		return "", nil
	}
	s, ok := p.value.(string)
	if !ok || s == "" {
		return "", bad(p.line, "%s must be a string that is not empty", key)
	}
	return s, nil
}

func (f fields) list(key string) ([]string, error) {
	p, ok := f[key]
	if !ok {
		return nil, nil
	}
	list, ok := p.value.([]string)
	if !ok {
		return nil, bad(p.line, "%s must be an array of strings", key)
	}
	return list, nil
}

func (f fields) boolean(key string) (bool, error) {
	p, ok := f[key]
	if !ok {
		return false, nil
	}
	b, ok := p.value.(bool)
	if !ok {
		return false, bad(p.line, "%s must be true or false", key)
	}
	return b, nil
}

// oneOf returns a text that is one of the values, or "" if the key is absent.
func (f fields) oneOf(key string, values ...string) (string, error) {
	s, err := f.text(key)
	if err == nil && s != "" && !slices.Contains(values, s) {
		err = bad(f[key].line, "%s must be one of %s", key, strings.Join(values, ", "))
	}
	return s, err
}

// selector reads providers and modes.
func (p *part) selector(f fields) (s Selector, err error) {
	if s.Agents, err = f.choice("providers", p.Names.Agents); err == nil {
		s.Modes, err = f.choice("modes", Modes())
	}
	return s, err
}

// choice reads a list of known values that is not empty.
func (f fields) choice(key string, known []string) ([]string, error) {
	list, err := f.list(key)
	if err != nil || f[key].value == nil {
		return nil, err
	}
	for i, v := range list {
		if !slices.Contains(known, v) || slices.Contains(list[:i], v) {
			return nil, bad(f[key].line, "%s: %s is unknown or given twice; known are %s", key, quote.Arg(v), strings.Join(known, ", "))
		}
	}
	if len(list) == 0 {
		return nil, bad(f[key].line, "%s is empty; leave it out to select all", key)
	}
	return list, nil
}

// KeyNames returns the keys of the vocabulary, sorted.
func (v Vocabulary) KeyNames() []string { return slices.Sorted(maps.Keys(v.Keys)) }

// CheckKey returns an error for a key that does not exist, or that an agent does not
// use; an empty agent asks only for the key.
func (v Vocabulary) CheckKey(key, agent string) error {
	agents, ok := v.Keys[key]
	switch {
	case !ok:
		return api.Usagef("known are "+strings.Join(v.KeyNames(), ", "), "unknown credential %s", quote.Arg(key))
	case agent != "" && !slices.Contains(agents, agent):
		return api.Usagef("it is for "+strings.Join(agents, ", "), "%s does not use the credential %s", quote.Arg(agent), key)
	}
	return nil
}

package secretfiles

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// defaults are the secret rules, at any depth, without regard to case. Each one
// is explained in docs/reference/left-out.md.
func defaults() []string {
	return []string{
		".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template",
		".ssh", ".aws", ".gnupg",
		".netrc", "_netrc", ".npmrc", ".pypirc", ".git-credentials",
		"id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "id_xmss*", "!id_*.pub",
		"*.pem", "*.key", "*.ppk", "*.p12", "*.pfx",
		"**/.docker/config.json", "**/.kube/config",
	}
}

// Defaults returns the secret rules that hold unless they are switched off.
func Defaults() []string { return defaults() }

// ignoreFile is the name of the file at a source's root that adds rules.
const ignoreFile = ".forkcellignore"

// maxIgnoreFile bounds the rules that a source can add.
const (
	maxIgnoreFile  = 1 << 20
	maxIgnoreRules = 10_000
)

// Options selects the rules.
type Options struct {
	// NoDefaults switches the secret rules off.
	NoDefaults bool
	// Above is the real path of the directory that paths are relative to, on the host; "" is
	// not known. Secret rules of several names, such as **/.docker/config.json, are compared
	// from there: a directory does not become harmless because it is named itself.
	Above string
	// Extra are the operator's patterns. They come last: "!x" takes back what any
	// rule before it left out.
	Extra []string
	// ignoreFile is the content of the source's .forkcellignore. It can only add
	// rules: "!x" in it takes back its own patterns, never a secret rule, because
	// the author of a source does not decide about secrets.
	IgnoreFile []byte
}

// Rules decides what is left out. It is immutable.
type Rules struct {
	secret, file, extra *list
	above               []string // names above the root that a secret rule can begin with
	last                atomic.Pointer[place]
}

// New makes the rules of a cell.
func New(opt Options) (*Rules, error) {
	secret := defaults()
	if opt.NoDefaults {
		secret = nil
	}
	file, err := readIgnoreFile(opt.IgnoreFile)
	if err != nil {
		return nil, err
	}
	r, err := build(secret, file, opt.Extra)
	if err == nil {
		r.above = namesThatMatter(opt.Above, secret)
	}
	return r, err
}

// namesThatMatter returns the names of a path if a pattern can begin in them: if the last of
// them is one of its directories. Else it is nil, and costs nothing.
func namesThatMatter(above string, patterns []string) []string {
	names := strings.Split(strings.Trim(above, "/"), "/")
	last := fold(names[len(names)-1])
	for _, p := range patterns {
		dirs := strings.Split(p, "/")
		if slices.Contains(dirs[:len(dirs)-1], last) {
			return names
		}
	}
	return nil
}

// SecretBelow returns the secret rule that leaves a path out of a directory that it is in.
// Both are real paths of the host.
func SecretBelow(dir, path string, isDir bool) (rule string, out bool) {
	if path == dir {
		return "", false
	}
	r, err := New(Options{Above: dir})
	if err != nil {
		return "", true // not reached: the defaults are valid
	}
	return r.Match(strings.TrimPrefix(strings.TrimPrefix(path, dir), "/"), isDir)
}

func build(secret, file, extra []string) (*Rules, error) {
	var r Rules
	var err error
	if r.secret, err = newList(secret, true); err != nil {
		return nil, err
	}
	if r.file, err = newList(file, false); err != nil {
		return nil, fmt.Errorf("%s: %w", ignoreFile, err)
	}
	if r.extra, err = newList(extra, false); err != nil {
		return nil, err
	}
	return &r, nil
}

// CheckNew refuses patterns whose wildcards would make an import take very long. It is
// for new cells only: the rules of a cell that exists remain usable.
func (r *Rules) CheckNew() error {
	for _, c := range []struct {
		of   string
		list *list
	}{{ignoreFile, r.file}, {"the excluded patterns", r.extra}} {
		if work := c.list.work(); work > maxWork {
			return fmt.Errorf("%s: %w: the wildcards take too much work, %d units of at most %d", c.of, ErrPattern, work, maxWork)
		}
	}
	return nil
}

// readIgnoreFile returns the patterns of a gitignore-style file, without comments,
// empty lines and unescaped blanks at the end of a line.
func readIgnoreFile(b []byte) ([]string, error) {
	if len(b) > maxIgnoreFile {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", ignoreFile, ErrPattern, maxIgnoreFile)
	}
	var out []string
	for line := range strings.SplitSeq(strings.TrimPrefix(string(b), "\ufeff"), "\n") {
		line = strings.TrimSuffix(line, "\r")
		for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
			line = line[:len(line)-1]
		}
		if line == "" || line[0] == '#' {
			continue
		}
		out = append(out, line)
	}
	if len(out) > maxIgnoreRules {
		return nil, fmt.Errorf("%s: %w: more than %d patterns", ignoreFile, ErrPattern, maxIgnoreRules)
	}
	return out, nil
}

// Patterns returns the rules, as they were written.
func (r *Rules) Patterns() []string {
	var out []string
	for _, l := range []*list{r.secret, r.file, r.extra} {
		for i := range l.patterns {
			out = append(out, l.patterns[i].text)
		}
	}
	return out
}

// Match reports whether path is left out, and by which rule. Path is relative to
// the source and slash separated. Everything below a directory that is left out is
// left out too, and cannot be taken back.
func (r *Rules) Match(path string, isDir bool) (rule string, out bool) {
	rule, v := r.decide(path, isDir)
	return rule, v != kept
}

type verdict uint8

const (
	kept   verdict = iota
	chosen         // left out by a pattern of the operator
	secret         // left out by a secret rule or by the source's file
)

// place is a directory with what the rules decided about it.
type place struct {
	path  string
	above *place // nil for a name in the root
	rule  string
	verdict
	final bool // nothing below it can be decided otherwise
}

// holds reports whether path is below the directory.
func (p *place) holds(path string) bool {
	return len(path) > len(p.path) && path[len(p.path)] == '/' && strings.HasPrefix(path, p.path)
}

func (r *Rules) decide(path string, isDir bool) (rule string, v verdict) {
	if path == "" || path == "." {
		return "", kept
	}
	var buf [16]string
	parts := buf[:0]
	for c := range strings.SplitSeq(path, "/") {
		parts = append(parts, c)
	}
	above := r.directory(path[:max(strings.LastIndexByte(path, '/'), 0)], parts[:len(parts)-1])
	p := r.name(above, path, parts, isDir)
	return p.rule, p.verdict
}

// directory decides about a directory and those above it; parts are its components.
// It remembers the last one: an import asks about the names of a directory one after
// another, and the directories above it decide the same each time.
func (r *Rules) directory(path string, parts []string) *place {
	p := r.last.Load()
	if p != nil && p.path == path {
		return p
	}
	for p != nil && !p.holds(path) {
		p = p.above
	}
	known, end := 0, 0
	if p != nil {
		known, end = strings.Count(p.path, "/")+1, len(p.path)+1
	}
	for i := known; i < len(parts); i++ {
		end += len(parts[i])
		next := r.name(p, path[:end], parts[:i+1], true)
		p = &next
		end++
	}
	if p != nil {
		r.last.Store(p)
	}
	return p
}

// name decides about one name of a directory.
func (r *Rules) name(above *place, path string, parts []string, isDir bool) place {
	at := place{path: path, above: above}
	if above != nil {
		at.rule, at.verdict, at.final = above.rule, above.verdict, above.final
	}
	if at.final {
		return at
	}
	p := r.extra.find(parts, isDir)
	switch {
	case p != nil && !p.negated:
		at.rule, at.verdict, at.final = p.text, chosen, true
		return at
	case p != nil || at.verdict != kept:
		return at
	}
	if p := r.secret.find(r.fromAbove(parts), isDir); p != nil && !p.negated {
		at.rule, at.verdict = p.text, secret
	} else if p := r.file.find(parts, isDir); p != nil && !p.negated {
		at.rule, at.verdict = p.text, secret
	}
	return at
}

// fromAbove returns the names of a path from above the root.
func (r *Rules) fromAbove(parts []string) []string {
	if r.above == nil {
		return parts
	}
	return slices.Concat(r.above, parts)
}

// Selector is the part of a change that a user selected.
type Selector struct {
	only, except *list
}

// NewSelector takes the patterns of --only and --except. Without patterns of
// --only everything is selected.
func NewSelector(only, except []string) (*Selector, error) {
	var s Selector
	var err error
	if s.only, err = newList(only, false); err != nil {
		return nil, err
	}
	if s.except, err = newList(except, false); err != nil {
		return nil, err
	}
	return &s, nil
}

// Match reports whether path is selected: it or a directory above it matches
// --only, and neither it nor a directory above it matches --except.
func (s *Selector) Match(path string, isDir bool) bool {
	return (len(s.only.patterns) == 0 || s.only.covers(path, isDir)) && !s.except.covers(path, isDir)
}

// covers reports whether path or a directory above it is in the list. Unlike a
// rule, a pattern "!x" takes x out of a directory that is in it.
func (l *list) covers(path string, isDir bool) bool {
	in := false
	anyParent(path, isDir, func(parts []string, isDir bool) bool {
		if p := l.find(parts, isDir); p != nil {
			in = !p.negated
		}
		return false
	})
	return in
}

package injection

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Store changes the operator's own policy. It keeps comments and everything that it
// does not change. It stores sources, never values.
type Store struct {
	Loader

	// Path is the policy's file.
	Path string
}

// empty is a policy without entries.
const empty = "version = 1\n"

// Init makes an empty policy, private to the caller, and reports whether there was
// none.
func (s Store) Init() (made bool, err error) {
	root, err := fsx.OpenRoot("/")
	if err != nil {
		return false, err
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(strings.TrimPrefix(path.Dir(s.Path), "/"), 0o700); err != nil {
		return false, err
	}
	err = s.withLock(func(dir *fsx.Dir) error {
		if _, err := s.Load(s.Path); !isMissing(err) {
			return err
		}
		made = true
		return fsx.WriteFile(dir, path.Base(s.Path), []byte(empty), 0o600)
	})
	return made, err
}

// Set adds the entry of a credential, or replaces it. An entry that other agents use
// too is only extended by agents.
func (s Store) Set(c Credential) error {
	if _, err := s.Init(); err != nil {
		return err
	}
	return s.change(func(text []byte, p *Policy) ([]byte, error) {
		old, ok := p.Credentials[c.Key]
		switch {
		case !ok:
			return with(text, c)
		case old.File != s.Path:
			return nil, elsewhere(c.Key, old.File)
		case len(s.otherAgents(old, c)) == 0:
			return with(text, c)
		case !sameButAgents(old, c):
			return nil, api.Refusef(api.CodeCredential, fmt.Sprintf("`forkcell auth unset --credential %s` removes it", c.Key),
				"%s is also set for %s, with another source, other modes or other permissions", c.Key, quote.Line(strings.Join(s.otherAgents(old, c), ", ")))
		case len(old.Agents) == 0:
			return text, nil // it is for every agent already
		}
		c.Agents = append(slices.Clone(old.Agents), c.Agents...)
		return with(text, c)
	})
}

// otherAgents returns the agents that use an entry, and are none of those of another one.
func (s Store) otherAgents(old, c Credential) []string {
	agents := old.Agents
	if len(agents) == 0 {
		agents = s.Names.Keys[old.Key]
	}
	return slices.DeleteFunc(slices.Clone(agents), func(name string) bool {
		return len(c.Agents) == 0 || slices.Contains(c.Agents, name)
	})
}

// sameButAgents reports whether two entries differ in nothing but their agents.
func sameButAgents(a, b Credential) bool {
	modes := func(c Credential) []string { return slices.Compact(slices.Sorted(slices.Values(c.Modes))) }
	return a.Source == b.Source && a.Resolver == b.Resolver && a.WriteBack == b.WriteBack && a.Copy == b.Copy && slices.Equal(modes(a), modes(b))
}

// Unset removes the entry of a credential, or an agent from it, and reports whether
// there was one. An agent of "" stands for all.
func (s Store) Unset(key, agent string) (removed bool, err error) {
	err = s.change(func(text []byte, p *Policy) ([]byte, error) {
		c, ok := p.Credentials[key]
		switch {
		case !ok || agent != "" && len(c.Agents) > 0 && !slices.Contains(c.Agents, agent):
			return text, nil
		case c.File != s.Path:
			return nil, elsewhere(key, c.File)
		case agent != "" && len(c.Agents) == 0:
			return nil, api.Usagef("leave --agent out to remove it", "%s is set for every agent", key)
		}
		removed = true
		c.Agents = slices.DeleteFunc(slices.Clone(c.Agents), func(name string) bool { return agent == "" || name == agent })
		if len(c.Agents) == 0 {
			return removeEntry(text, key)
		}
		return with(text, c)
	})
	if isMissing(err) {
		return false, nil
	}
	return removed, err
}

func elsewhere(key, file string) error {
	return api.Refusef(api.CodeCredential, "edit that file", "the credential %s is in the included file %s", key, quote.Path(file))
}

// change replaces the text of the policy, if the new one is valid.
func (s Store) change(edit func([]byte, *Policy) ([]byte, error)) error {
	return s.withLock(func(dir *fsx.Dir) error {
		policy, err := s.Load(s.Path)
		if err != nil {
			return err
		}
		old, err := s.readTrusted(s.Path)
		if err != nil {
			return err
		}
		text, err := edit(bytes.Clone(old), policy)
		if err != nil || bytes.Equal(text, old) {
			return err
		}
		_, err = s.load(s.Path, func(name string) ([]byte, error) {
			if name == s.Path {
				return text, nil
			}
			return s.readTrusted(name)
		})
		if err != nil {
			return err
		}
		return fsx.WriteFile(dir, path.Base(s.Path), text, 0o600)
	})
}

// withLock calls do with the policy's directory while no other process changes it.
func (s Store) withLock(do func(*fsx.Dir) error) error {
	dir, err := fsx.OpenRoot(path.Dir(s.Path))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // which releases the lock
	for {
		err := unix.Flock(dir.Fd(), unix.LOCK_EX)
		if err == nil {
			return do(dir)
		}
		if err != unix.EINTR {
			return fmt.Errorf("lock %s: %w", quote.Path(dir.Path()), err)
		}
	}
}

// with adds the entry of a credential, in place of one that is there.
func with(text []byte, c Credential) ([]byte, error) {
	text, err := removeEntry(text, c.Key)
	return append(bytes.TrimRight(text, "\n"), "\n\n"+render(c)...), err
}

// removeEntry removes the entry of a credential, in either form, from a valid policy.
func removeEntry(text []byte, key string) ([]byte, error) {
	doc, err := parse(text)
	if err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(string(text), "\n")
	drop := map[int]bool{}
	for i, t := range doc {
		switch t.name {
		case "credentials":
			for _, p := range t.keys {
				drop[p.line] = drop[p.line] || p.key == key
			}
		case "credentials." + key:
			next := len(lines) + 1
			if i+1 < len(doc) {
				next = doc[i+1].line
			}
			for line := t.line; line <= lastLine(lines, next-1); line++ {
				drop[line] = true
			}
		}
	}
	var out []string
	for i, line := range lines {
		if !drop[i+1] {
			out = append(out, line)
		}
	}
	return []byte(strings.Join(out, "")), nil
}

// lastLine returns the last line up to a number that is neither blank nor a comment:
// comments before a header belong to it.
func lastLine(lines []string, number int) int {
	for ; number > 0; number-- {
		if text := strings.TrimSpace(lines[number-1]); text != "" && text[0] != '#' {
			break
		}
	}
	return number
}

// render returns the table of a credential.
func render(c Credential) string {
	var b strings.Builder
	line := func(key string, value any) {
		// Strings and arrays of JSON are those of TOML, if nothing is escaped for HTML.
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		_ = e.Encode(value) // text and booleans always encode
		fmt.Fprintf(&b, "%s = %s", key, text.String())
	}
	fmt.Fprintf(&b, "[credentials.%s]\n", c.Key)
	if c.Resolver != "" {
		line("resolver", c.Resolver)
		line("materialization", "ephemeral")
	} else {
		line("source", c.Source)
	}
	if c.WriteBack {
		line("write_back", true)
	}
	if c.Copy {
		line("materialize", "copy")
	}
	if len(c.Agents) > 0 {
		line("providers", slices.Compact(slices.Sorted(slices.Values(c.Agents))))
	}
	if len(c.Modes) > 0 {
		line("modes", c.Modes)
	}
	return b.String()
}

package adapter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// MaxDocument bounds the text of an adapter.
const MaxDocument = 256 << 10

// Parse reads the document of one agent. Unknown keys, aliases and further documents
// are errors. The name of the file is for messages only.
func Parse(file string, text []byte) (*Adapter, error) {
	a, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quote.Path(file), err)
	}
	return a, nil
}

func parse(text []byte) (*Adapter, error) {
	if len(text) > MaxDocument {
		return nil, fmt.Errorf("more than %d bytes", MaxDocument)
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return nil, err
	}
	if len(node.Content) == 0 {
		return nil, errors.New("the file is empty; an adapter starts with version: 1")
	}
	if err := plain(&node); err != nil {
		return nil, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	a := &Adapter{}
	if err := dec.Decode(a); err != nil {
		return nil, readable(err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	return a, a.check()
}

// plain refuses anchors and aliases, by which a text could mean something other than
// it seems to.
func plain(n *yaml.Node) error {
	if n.Anchor != "" || n.Kind == yaml.AliasNode {
		return fmt.Errorf("line %d: anchors and aliases are not part of an adapter; write the value out", n.Line)
	}
	for _, c := range n.Content {
		if err := plain(c); err != nil {
			return err
		}
	}
	return nil
}

// inType is what the YAML package says about Go's types.
var inType = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`field (\S+) not found in type \S+`) })

// readable rewrites an error of the YAML package for people.
func readable(err error) error {
	text := inType().ReplaceAllString(err.Error(), "unknown key $1")
	text = strings.TrimPrefix(text, "yaml: unmarshal errors:")
	text = strings.TrimPrefix(text, "yaml: construct errors:")
	text = strings.TrimPrefix(text, "yaml: ")
	return errors.New(strings.Join(strings.Fields(text), " "))
}

// UnmarshalYAML reads a part of a policy. It is checked as a whole policy is.
func (f *Fragment) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return errors.New("a policy is a mapping")
	}
	whole := yaml.Node{Kind: yaml.MappingNode, Tag: n.Tag, Content: append([]*yaml.Node{
		{Kind: yaml.ScalarNode, Tag: "!!str", Value: "version"}, {Kind: yaml.ScalarNode, Tag: "!!int", Value: "1"},
	}, n.Content...)}
	text, err := yaml.Marshal(&whole)
	if err != nil {
		return err
	}
	f.text = string(text)
	p, err := policy.Parse("policy", text, policy.Options{})
	if err != nil {
		return err
	}
	if len(p.Credentials) > 0 {
		return errors.New("credentials are a part of the adapter, not of its policy")
	}
	f.policy = p
	return nil
}

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"
)

// isWord reports whether s has at most so many characters, of which the first is one
// of first and the others of first or rest.
func isWord(s string, most int, first, rest string) bool {
	return s != "" && len(s) <= most && strings.ContainsRune(first, rune(s[0])) && strings.Trim(s, first+rest) == ""
}

func isName(s string) bool     { return isWord(s, 31, lower, digits+"-_") }
func isKey(s string) bool      { return isWord(s, 63, lower, digits+"_") }
func isVariable(s string) bool { return isWord(s, 128, lower+upper+"_", digits) }

// check refuses values that mean nothing, or that would leave the home.
func (a *Adapter) check() error {
	switch {
	case a.Version != 1:
		return errors.New("version must be the number 1")
	case !isName(a.Name):
		return fmt.Errorf("name: %s is not a name: lower-case letters, digits, - and _, and at most 31 of them", quote.Arg(a.Name))
	case !slices.Contains([]string{"", TurnsHook, TurnsQuiet}, a.Turns.By):
		return errors.New("turns: by is hook or quiet")
	case slices.ContainsFunc(a.Turns.Written, func(field string) bool { return !isKey(field) }):
		return errors.New("turns: written are names of fields: lower-case letters, digits and _")
	case !slices.Contains([]string{"", "off", "none"}, a.NativeSandbox.State):
		return errors.New("native_sandbox: state is off or none")
	}
	for name := range a.Environment {
		if !isVariable(name) {
			return fmt.Errorf("environment: %s is not the name of a variable", quote.Arg(name))
		}
	}
	for _, n := range a.Program.Names {
		if n == "" || strings.ContainsAny(n, "/\x00") {
			return fmt.Errorf("program: names: %s is not the name of a program", quote.Arg(n))
		}
	}
	return errors.Join(a.checkRefused(), a.checkCredentials(), a.checkFiles(), a.Paths.check())
}

func (a *Adapter) checkRefused() error {
	for i, r := range a.Refused {
		if r.Why == "" || len(r.Flags)+len(r.Settings)+len(r.Commands) == 0 {
			return fmt.Errorf("refused[%d]: needs why, and one of flags, settings, commands", i)
		}
		for _, f := range r.Flags {
			if !strings.HasPrefix(f, "-") {
				return fmt.Errorf("refused[%d]: %s is not a flag", i, quote.Arg(f))
			}
		}
	}
	return nil
}

func (a *Adapter) checkCredentials() error {
	for i, c := range a.Credentials {
		switch {
		case !isKey(c.Key):
			return fmt.Errorf("credentials[%d]: %s is not a key", i, quote.Arg(c.Key))
		case slices.ContainsFunc(a.Credentials[:i], func(o Credential) bool { return o.Key == c.Key }):
			return fmt.Errorf("credentials[%d]: %s is there twice", i, c.Key)
		case c.How != AsPlaceholder && c.How != AsHeader:
			return fmt.Errorf("credentials[%d]: how is %s or %s", i, AsPlaceholder, AsHeader)
		case c.How == AsHeader && c.Header == "":
			return fmt.Errorf("credentials[%d]: needs header", i)
		case c.How == AsPlaceholder && c.Variable == "" && c.Login == nil:
			return fmt.Errorf("credentials[%d]: needs variable or login", i)
		case c.Variable != "" && !isVariable(c.Variable):
			return fmt.Errorf("credentials[%d]: %s is not the name of a variable", i, quote.Arg(c.Variable))
		case len(c.Providers) > 0 && c.Login == nil:
			return fmt.Errorf("credentials[%d]: providers are those of a login", i)
		}
		if c.Login != nil {
			if err := checkBelow(c.Login.File); err != nil {
				return fmt.Errorf("credentials[%d]: login: %w", i, err)
			}
		}
		for _, part := range c.Parts() {
			if err := part.checkPart(c.How); err != nil {
				return fmt.Errorf("credentials[%d]: %w", i, err)
			}
		}
		for _, p := range c.Providers {
			if !isKey(p.Key) || p.Login == nil || len(p.Login.Tokens) == 0 || len(p.Providers) > 0 {
				return fmt.Errorf("credentials[%d]: providers: each has a key, and a login with tokens", i)
			}
		}
	}
	return nil
}

// checkPart checks a credential, or a provider of a login that gets into a session as how
// says.
func (c Credential) checkPart(how string) error {
	if len(c.Endpoints) == 0 {
		return errors.New("needs endpoints")
	}
	for _, e := range c.Endpoints {
		if e.Host == "" || e.Port < 1 || e.Port > 65535 {
			return errors.New("an endpoint has a host and a port")
		}
	}
	if how == AsPlaceholder && len(c.Headers)+len(c.Query) == 0 {
		return errors.New("needs headers or query: where the agent sends the placeholder, such as headers: [Authorization]")
	}
	return nil
}

func (a *Adapter) checkFiles() error {
	for _, f := range a.Files {
		if err := checkBelow(f.Path); err != nil {
			return fmt.Errorf("files: %w", err)
		}
		if !slices.Contains([]string{"", Yolo, Prompt}, f.Autonomy) {
			return fmt.Errorf("files: %s: autonomy is %s or %s", quote.Path(f.Path), Yolo, Prompt)
		}
		if _, known := a.Credential(f.Credential); f.Credential != "" && !known {
			return fmt.Errorf("files: %s: no credential has the key %s", quote.Path(f.Path), quote.Arg(f.Credential))
		}
		if _, err := f.Parts(); err != nil {
			return fmt.Errorf("files: %s: %w", quote.Path(f.Path), err)
		}
	}
	return nil
}

func (p Paths) check() error {
	for _, list := range [][]string{p.Instructions, p.Control, p.MCP, p.Own, p.State, p.History} {
		for _, name := range list {
			if err := checkBelow(strings.TrimSuffix(name, "/")); err != nil {
				return fmt.Errorf("paths: %w", err)
			}
		}
	}
	return nil
}

// checkBelow refuses a path that is not a clean one below a directory.
func checkBelow(name string) error {
	if name == "" || path.IsAbs(name) || path.Clean(name) != name || name == "." || name == ".." || strings.HasPrefix(name, "../") || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%s is not a path below a directory", quote.Path(name))
	}
	return nil
}

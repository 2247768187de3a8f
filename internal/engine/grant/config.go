package grant

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// maxConfig bounds the configuration file.
const maxConfig = 256 << 10

// ReadConfig reads the grants of the operator's configuration file, which must
// belong to the caller, and no other user may write it. The error is os.ErrNotExist
// if the file does not exist.
func ReadConfig(name string) (List, error) {
	text, err := fsx.ReadOwn(name, 0o022, maxConfig)
	if err != nil {
		return nil, err
	}
	return ParseConfig(text)
}

// ParseConfig reads a configuration file: a mapping with the one key grants, a
// list of mappings with the keys policy, one of subjects, and mode. Errors name the
// line.
func ParseConfig(text []byte) (List, error) {
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	top, err := mapping(doc.Content[0], "grants")
	if err != nil {
		return nil, err
	}
	list := top["grants"]
	if list == nil {
		return nil, nil
	}
	if list.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("line %d: grants must be a list", list.Line)
	}
	var out List
	for _, n := range list.Content {
		g, err := entry(n)
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

// mapping returns the values of a mapping that has only these keys, each once.
func mapping(n *yaml.Node, known ...string) (map[string]*yaml.Node, error) {
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: must be a mapping with the keys %s", n.Line, strings.Join(known, ", "))
	}
	vals := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode || !slices.Contains(known, key.Value):
			return nil, fmt.Errorf("line %d: unknown key %q; known are %s", key.Line, key.Value, strings.Join(known, ", "))
		case vals[key.Value] != nil:
			return nil, fmt.Errorf("line %d: duplicate key %s", key.Line, key.Value)
		}
		vals[key.Value] = n.Content[i+1]
	}
	return vals, nil
}

func entry(n *yaml.Node) (Grant, error) {
	vals, err := mapping(n, append(subjects(), "policy", "mode")...)
	if err != nil {
		return Grant{}, err
	}
	texts := map[string]string{}
	for key, v := range vals {
		if v.Kind != yaml.ScalarNode || v.ShortTag() != "!!str" {
			return Grant{}, fmt.Errorf("line %d: %s must be text", v.Line, key)
		}
		texts[key] = v.Value
	}
	g, err := newGrant(texts)
	if err != nil {
		return Grant{}, fmt.Errorf("line %d: %w", n.Line, err)
	}
	return g, nil
}

// subjects are the keys of what is granted, of which an entry has one.
func subjects() []string { return []string{"path", "env", "syscall", "address"} }

func newGrant(texts map[string]string) (g Grant, err error) {
	given := slices.DeleteFunc(subjects(), func(key string) bool { _, ok := texts[key]; return !ok })
	if len(given) != 1 {
		return g, errors.New("a grant has one of the keys " + strings.Join(subjects(), ", "))
	}
	text := texts[given[0]]
	mode, hasMode := texts["mode"]
	switch {
	case hasMode && given[0] != "path":
		return g, errors.New("only a path has a mode")
	case hasMode && mode != "ro" && mode != "rw":
		return g, errors.New("mode is ro or rw")
	}
	switch given[0] {
	case "path":
		g, err = newPath(text, mode == "rw")
	case "env":
		g, err = ParseEnv(text)
	case "syscall":
		g, err = ParseSyscall(text)
	case "address":
		g, err = ParseAddress(text)
	}
	if err != nil {
		return g, err
	}
	g.Policy, err = policyName(texts["policy"])
	return g, err
}

// policyName checks the value that names the policy of a grant.
func policyName(s string) (string, error) {
	hash, isHash := strings.CutPrefix(s, "sha256:")
	switch {
	case isHash && len(hash) == 64 && strings.Trim(hash, "0123456789abcdef") == "":
		return s, nil
	case path.IsAbs(s) && strings.HasSuffix(s, "/") && path.Clean(s) != "/":
		return path.Clean(s) + "/", nil
	}
	return "", errors.New("policy must be sha256: with 64 digits, or a directory that the policy's file is in, as /dir/")
}

package injection

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/quote"
)

func (p *part) ssh(t table) error {
	keys, err := t.only("enabled", "config", "known_hosts", "identities", "providers", "modes", "allow_unsafe_config")
	if err != nil {
		return err
	}
	if p.policy.SSH != nil {
		return bad(t.line, "ssh is in another file of the policy already")
	}
	s := &SSH{}
	if s.Selector, err = p.selector(keys); err != nil {
		return err
	}
	if s.Enabled, err = keys.boolean("enabled"); err != nil {
		return err
	}
	if s.AllowUnsafeConfig, err = keys.boolean("allow_unsafe_config"); err != nil {
		return err
	}
	if s.Config, err = p.optional(keys, "config"); err != nil {
		return err
	}
	if s.KnownHosts, err = p.optional(keys, "known_hosts"); err != nil {
		return err
	}
	list, err := keys.list("identities")
	if err != nil {
		return err
	}
	if s.Identities, err = p.identities(keys["identities"].line, list); err != nil {
		return err
	}
	p.policy.SSH = s
	return nil
}

// optional returns the path of a file that may be left out.
func (p *part) optional(keys fields, key string) (string, error) {
	text, err := keys.text(key)
	if err != nil || text == "" {
		return "", err
	}
	return p.path(text), nil
}

// identities returns the paths of keys, whose names differ.
func (p *part) identities(line int, list []string) ([]string, error) {
	var out, names []string
	for _, text := range list {
		base := path.Base(text)
		switch {
		case text == "":
			return nil, bad(line, "identities: an empty path")
		case base == "config", base == "known_hosts", slices.Contains(names, base):
			return nil, bad(line, "identities: %s is a name that is taken", quote.Arg(base))
		}
		names = append(names, base)
		out = append(out, p.path(text))
	}
	return out, nil
}

// unsafeDirectives are settings of an ssh client that run programs, pass variables
// or connections on, or read other files.
func unsafeDirectives() []string {
	return []string{
		"controlmaster", "controlpath", "controlpersist", "forwardagent", "identityagent", "include", "knownhostscommand", "localcommand",
		"permitlocalcommand", "pkcs11provider", "proxycommand", "securitykeyprovider", "sendenv", "setenv", "userknownhostsfile",
	}
}

// UnsafeDirective returns the first directive of an ssh client's configuration that
// could run a program or widen what the session reaches; "" if there is none.
func UnsafeDirective(config io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(config, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxFile {
		return "", fmt.Errorf("larger than %d bytes", maxFile)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		// ssh takes blanks, quotes and one equals sign between name and value.
		words := strings.FieldsFunc(strings.ToLower(line), func(r rune) bool { return strings.ContainsRune(" \t\r\f\v=\"", r) })
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if slices.Contains(unsafeDirectives(), words[0]) {
			return words[0], nil
		}
		if words[0] == "match" && slices.ContainsFunc(words[1:], func(w string) bool { return strings.TrimPrefix(w, "!") == "exec" }) {
			return "match exec", nil
		}
	}
	return "", nil
}

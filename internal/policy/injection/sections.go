package injection

import (
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func (p *part) documents(t table) error {
	known := append([]string{"common"}, p.Names.Agents...)
	keys, err := t.only(known...)
	if err != nil {
		return err
	}
	for _, d := range t.keys {
		s, err := keys.text(d.key)
		if err != nil {
			return err
		}
		if _, twice := p.policy.Documents[d.key]; twice {
			return bad(d.line, "the document %s is in another file of the policy already", d.key)
		}
		if p.policy.Documents[d.key], err = p.source(d.line, s); err != nil {
			return err
		}
	}
	return nil
}

// credentials reads the short form: key = "path".
func (p *part) credentials(t table) error {
	if _, err := t.only(p.Names.KeyNames()...); err != nil {
		return err
	}
	for _, entry := range t.keys {
		s, ok := entry.value.(string)
		if !ok {
			return bad(entry.line, "%s must be a string with a source, or a table [credentials.%s]", entry.key, entry.key)
		}
		if slices.Contains(p.Names.Restricted, entry.key) {
			return bad(entry.line, "%s must be a table [credentials.%s] with providers", entry.key, entry.key)
		}
		source, err := p.credentialSource(entry.line, s)
		if err != nil {
			return err
		}
		if err := p.add(entry.line, Credential{Key: entry.key, Source: source, Scalar: true}); err != nil {
			return err
		}
	}
	return nil
}

// credentialSource returns a source with its path made absolute.
func (p *part) credentialSource(line int, s string) (string, error) {
	for _, kind := range []string{"env:", "command:"} {
		if strings.HasPrefix(s, kind) && len(s) > len(kind) {
			return s, nil
		}
	}
	return p.source(line, strings.TrimPrefix(s, "file:"))
}

func (p *part) add(line int, c Credential) error {
	if other, twice := p.policy.Credentials[c.Key]; twice {
		return bad(line, "the credential %s is in %s already", c.Key, quote.Path(other.File))
	}
	c.File = p.name
	p.policy.Credentials[c.Key] = c
	return nil
}

// credential reads a table [credentials.KEY].
func (p *part) credential(t table, key string) error {
	if _, ok := p.Names.Keys[key]; !ok {
		return bad(t.line, "unknown credential %s; known are %s", quote.Arg(key), strings.Join(p.Names.KeyNames(), ", "))
	}
	keys, err := t.only("source", "resolver", "materialization", "providers", "modes", "materialize", "write_back")
	if err != nil {
		return err
	}
	c := Credential{Key: key}
	if c.Selector, err = p.selector(keys); err != nil {
		return err
	}
	if err := p.checkAgents(t, key, c.Agents); err != nil {
		return err
	}
	if err := p.origin(t, keys, &c); err != nil {
		return err
	}
	how, err := keys.oneOf("materialize", "placeholder", "copy")
	if err != nil {
		return err
	}
	c.Copy = how == "copy"
	return p.add(t.line, c)
}

// checkAgents checks the agents that an entry names.
func (p *part) checkAgents(t table, key string, agents []string) error {
	if len(agents) == 0 && slices.Contains(p.Names.Restricted, key) {
		return bad(t.line, "%s needs providers: several agents could use it", key)
	}
	for _, a := range agents {
		if !slices.Contains(p.Names.Keys[key], a) {
			return bad(t.line, "%s does not use the credential %s", a, key)
		}
	}
	return nil
}

// origin reads where a credential comes from.
func (p *part) origin(t table, keys fields, c *Credential) (err error) {
	source, err := keys.text("source")
	if err != nil {
		return err
	}
	if c.Resolver, err = keys.text("resolver"); err != nil {
		return err
	}
	if (source == "") == (c.Resolver == "") {
		return bad(t.line, "%s needs either source or resolver", c.Key)
	}
	kept, err := keys.oneOf("materialization", "ephemeral", "persistent")
	if err != nil {
		return err
	}
	if c.WriteBack, err = keys.boolean("write_back"); err != nil {
		return err
	}
	switch serves, known := Resolvers()[c.Resolver]; {
	case source != "" && kept != "":
		return bad(keys["materialization"].line, "materialization belongs to a resolver")
	case source != "" && c.WriteBack:
		return bad(keys["write_back"].line, "write_back belongs to a resolver")
	case source != "":
		c.Source, err = p.credentialSource(keys["source"].line, source)
		return err
	case !known || serves != c.Key:
		return bad(keys["resolver"].line, "%s is no resolver of %s", quote.Arg(c.Resolver), c.Key)
	case kept == "persistent":
		return bad(keys["materialization"].line, "persistent is refused: a resolver's value is never stored")
	}
	return nil
}

func (p *part) copies(t table) error {
	keys, err := t.only("source", "target", "classification", "providers", "modes")
	if err != nil {
		return err
	}
	var c Copy
	if c.Selector, err = p.selector(keys); err != nil {
		return err
	}
	source, err := keys.text("source")
	if err != nil {
		return err
	}
	if source == "" {
		return bad(t.line, "source is missing")
	}
	if c.Source, err = p.source(keys["source"].line, source); err != nil {
		return err
	}
	target, err := keys.text("target")
	if err != nil {
		return err
	}
	if c.Target, err = copyTarget(max(t.line, keys["target"].line), target); err != nil {
		return err
	}
	class, err := keys.oneOf("classification", "public", "secret")
	if err != nil {
		return err
	}
	if class == "" {
		return bad(t.line, "classification is missing: public or secret")
	}
	c.Secret = class == "secret"
	p.policy.Copies = append(p.policy.Copies, c)
	return nil
}

// injected is the directory below the cell's home for copies whose target is
// Workcell's /state/injected.
const injected = ".forkcell/injected"

// copyTarget returns the path of a target below the cell's home.
func copyTarget(line int, s string) (string, error) {
	if s == "" {
		return "", bad(line, "target is missing")
	}
	rel, ok := "", false
	for _, place := range []struct{ prefix, below string }{{"~/", ""}, {"/state/agent-home/", ""}, {"/state/injected/", injected}} {
		if rest, found := strings.CutPrefix(s, place.prefix); found {
			rel, ok = path.Join(place.below, rest), rest != ""
		}
	}
	if !ok || slices.Contains(strings.Split(s, "/"), "..") || rel == injected || rel == "." {
		return "", bad(line, "target %s: a target is below ~/ or /state/injected/, without ..", quote.Path(s))
	}
	for _, own := range []string{
		".claude", ".config/claude-code", ".codex", ".copilot", ".cache/github-copilot", ".config/github-copilot", ".gemini", ".config/gcloud",
		".config/gh", ".ssh", ".mcp.json", ".local/share/opencode", ".config/opencode",
	} {
		if strings.HasPrefix(rel, own) || strings.HasPrefix(own, rel+"/") {
			return "", bad(line, "target %s is reserved for agents and their credentials", quote.Path(s))
		}
	}
	return rel, nil
}

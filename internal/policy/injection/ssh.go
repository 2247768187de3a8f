package injection

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func (p *part) ssh(t table) error {
	keys, err := t.only("enabled", "config", "known_hosts", "identities", "hosts", "providers", "modes", "allow_unsafe_config")
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
	if s.Hosts, err = keys.sshHosts("hosts"); err != nil {
		return err
	}
	p.policy.SSH = s
	return nil
}

// sshHosts reads a list of [USER@]HOST[:PORT].
func (f fields) sshHosts(key string) ([]SSHHost, error) {
	list, err := f.list(key)
	var out []SSHHost
	for _, text := range list {
		h, ok := parseSSHHost(text)
		if !ok {
			return nil, bad(f[key].line, "%s: %s is not HOST, HOST:PORT or USER@HOST:PORT", key, quote.Arg(text))
		}
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out, err
}

// parseSSHHost reads [USER@]HOST[:PORT]. The port is 22 if there is none. An IPv6
// address is in brackets.
func parseSSHHost(text string) (h SSHHost, ok bool) {
	host := text
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		h.User, host = text[:i], text[i+1:]
		if h.User == "" || len(h.User) > maxUser || strings.ContainsFunc(h.User, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return SSHHost{}, false
		}
	}
	if h.Endpoint, ok = ParseEndpoint(host); !ok {
		h.Endpoint, ok = ParseEndpoint(host + ":22")
	}
	return h, ok
}

// maxUser bounds the name of a user.
const maxUser = 64

// String returns the host as parseSSHHost reads it.
func (h SSHHost) String() string {
	text := h.Endpoint.String()
	if h.Port == sshPort {
		text = strings.TrimSuffix(text, ":22")
	}
	if h.User != "" {
		text = h.User + "@" + text
	}
	return text
}

const sshPort = 22

// optional returns the path of a file that may be left out.
func (p *part) optional(keys fields, key string) (string, error) {
	text, err := keys.text(key)
	if err != nil || text == "" {
		return "", err
	}
	return p.path(text), nil
}

// isFingerprint reports whether a text is a fingerprint as ssh-keygen prints it.
func isFingerprint(text string) bool {
	encoded, ok := strings.CutPrefix(text, "SHA256:")
	sum, err := base64.RawStdEncoding.DecodeString(encoded)
	return ok && err == nil && len(sum) == sha256.Size
}

// identities returns the paths of keys, whose names differ, and keys of the agent.
func (p *part) identities(line int, list []string) ([]string, error) {
	var out, names []string
	for _, text := range list {
		base := path.Base(text)
		if key, isAgent := strings.CutPrefix(text, AgentPrefix); isAgent {
			if !isFingerprint(key) || slices.Contains(out, text) {
				return nil, bad(line, "identities: %s is not agent: and a fingerprint that ssh-add -l prints, or is given twice", quote.Arg(text))
			}
			out = append(out, text)
			continue
		}
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

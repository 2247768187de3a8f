package credentials

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/network/sshagent"
	"github.com/forkcell/forkcell/internal/network/sshkey"
	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// SSH describes how a session may log in to hosts. It holds no secret.
type SSH struct {
	// Keys are the operator's, with their sources for people.
	Keys []SSHKey
	// Known are the keys of hosts.
	Known sshkey.KnownHosts
	// Hosts are those that the policy lists; none leaves it to the session's endpoints.
	Hosts []injection.SSHHost
	// Config is the operator's configuration of ssh.
	Config []byte
	// Unsafe is a directive of it that could run a program or widen what the session
	// reaches; "" if there is none.
	Unsafe string
}

// SSHKey is a key, and where it is.
type SSHKey struct {
	api.SSHKey

	Source string
}

// UsesSSH reports whether an injection policy lets sessions of an agent in a mode log in
// to hosts.
func UsesSSH(p *injection.Policy, agent, mode string) bool {
	return p != nil && p.SSH != nil && p.SSH.Enabled && p.SSH.Selects(agent, mode)
}

// ReadSSH checks the keys of an injection policy and reads its lists, for an agent in a
// mode; nil if there is nothing for them.
func ReadSSH(policy *injection.Policy, agent, mode string, h Host) (*SSH, error) {
	if !UsesSSH(policy, agent, mode) {
		return nil, nil //nolint:nilnil // as documented
	}
	p := policy.SSH
	s := &SSH{Hosts: p.Hosts}
	if p.KnownHosts != "" {
		text, err := h.readAll(p.KnownHosts, injection.OpenPublic)
		if err != nil {
			return nil, fileError("ssh.known_hosts", p.KnownHosts, "connect to the host once, and check its key", err)
		}
		s.Known = sshkey.ParseKnownHosts(text)
	} else if len(p.Identities) > 0 {
		return nil, api.Refusef(api.CodeCredential, "name a file known_hosts with the keys of the hosts", "the injection policy has ssh.identities and no ssh.known_hosts: keys sign only for hosts whose key is known")
	}
	if err := s.readConfig(p, h); err != nil {
		return nil, err
	}
	for _, name := range p.Identities {
		key, err := readIdentity(name, h)
		if err != nil {
			return nil, err
		}
		s.Keys = append(s.Keys, key)
	}
	return s, nil
}

func (s *SSH) readConfig(p *injection.SSH, h Host) (err error) {
	if p.Config == "" {
		return nil
	}
	if s.Config, err = h.readAll(p.Config, injection.OpenPublic); err == nil {
		s.Unsafe, err = injection.UnsafeDirective(bytes.NewReader(s.Config))
	}
	if err != nil {
		return fileError("ssh.config", p.Config, "leave config out of the injection policy", err)
	}
	if s.Unsafe != "" && !p.AllowUnsafeConfig {
		return api.Refusef(api.CodeCredential, "remove it, or set allow_unsafe_config = true, which lowers the assurance",
			"ssh.config %s has the directive %s", quote.Path(p.Config), s.Unsafe)
	}
	return nil
}

// readIdentity finds a key. Of one in a file it reads the public half.
func readIdentity(name string, h Host) (SSHKey, error) {
	if fingerprint, isAgent := strings.CutPrefix(name, injection.AgentPrefix); isAgent {
		return agentIdentity(fingerprint, h)
	}
	text, err := h.readAll(name, injection.OpenSecret)
	defer clear(text)
	var key *sshkey.PrivateKey
	if err == nil {
		key, err = sshkey.ParsePrivate(text)
	}
	if errors.Is(err, sshkey.ErrPassphrase) {
		return SSHKey{}, api.Refusef(api.CodeCredential, "add it to your agent with `ssh-add`, and list it as agent:FINGERPRINT, as `ssh-add -l` prints it",
			"the ssh key %s is protected by a passphrase", quote.Path(name))
	}
	if err != nil {
		return SSHKey{}, fileError("the ssh key", name, "name the file of a private key in ssh.identities", err)
	}
	return SSHKey{api.SSHKey{Fingerprint: key.Public().Fingerprint(), File: api.Text(name)}, "file:" + quote.Path(name)}, nil
}

func agentIdentity(fingerprint string, h Host) (SSHKey, error) {
	socket := h.value("SSH_AUTH_SOCK")
	if !path.IsAbs(socket) {
		return SSHKey{}, api.Refusef(api.CodeCredential, "start one with `eval $(ssh-agent)` and `ssh-add`", "the ssh key %s is in your agent, and SSH_AUTH_SOCK names none", fingerprint)
	}
	if _, err := (sshagent.Upstream{Socket: socket}).Key(context.Background(), fingerprint); err != nil {
		return SSHKey{}, api.Refusef(api.CodeCredential, "`ssh-add -l` lists the keys of your agent", "the ssh key %s: %s", fingerprint, err)
	}
	return SSHKey{api.SSHKey{Fingerprint: fingerprint, Agent: api.Text(socket)}, "your ssh agent"}, nil
}

// value returns a variable of the operator; "" if it is not set.
func (h Host) value(name string) string {
	out := ""
	for _, kv := range h.Env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			out = cmp.Or(v, out)
		}
	}
	return out
}

// fileError returns the error for a file of the policy that cannot be used. next is
// what to do if it does not exist.
func fileError(what, name, next string, err error) error {
	if untrusted, ok := errors.AsType[*api.Error](err); ok { // it names the file
		return api.Refusef(api.CodeCredential, untrusted.Hint, "%s %s", what, untrusted.Message)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return api.Refusef(api.CodeCredential, next, "%s %s does not exist", what, quote.Path(name))
	}
	return api.Refusef(api.CodeCredential, "", "%s %s: %s", what, quote.Path(name), err)
}

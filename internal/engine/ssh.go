package engine

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network"
	"github.com/forkcell/forkcell/internal/network/sshagent"
	"github.com/forkcell/forkcell/internal/network/sshkey"
	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// maxKeyFile bounds the file of a private key.
const maxKeyFile = 64 << 10

// sshAgent makes the agent that signs for a run; nil if there is none to make.
func (r *run) sshAgent(ctx context.Context, q *api.SSHRequest) (network.Agent, error) {
	if q == nil || len(q.Keys) == 0 {
		return nil, nil //nolint:nilnil // as documented
	}
	if len(q.Keys) > sshagent.MaxKeys {
		return nil, api.Refusef(api.CodeCredential, "list fewer identities", "%d ssh keys are more than %d", len(q.Keys), sshagent.MaxKeys)
	}
	cfg := sshagent.Config{Decided: r.recordSSH}
	for _, k := range q.Keys {
		key, err := r.sshKey(ctx, k)
		if err != nil {
			return nil, api.Refusef(api.CodeCredential, "", "the ssh key %s: %v", k.Fingerprint, err)
		}
		cfg.Keys = append(cfg.Keys, key)
	}
	for _, h := range q.Hosts {
		host := sshagent.Host{Name: h.Host, Port: h.Port, User: h.User}
		for _, text := range h.Keys {
			_, encoded, _ := strings.Cut(text, " ")
			blob, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				return nil, api.Usagef("", "the key of host %s: %v", quote.Line(h.Host), err)
			}
			key, err := sshkey.ParsePublic(blob)
			if err != nil {
				return nil, api.Usagef("", "the key of host %s: %v", quote.Line(h.Host), err)
			}
			host.Keys = append(host.Keys, key)
		}
		cfg.Hosts = append(cfg.Hosts, host)
	}
	return sshagent.New(cfg), nil
}

// sshKey finds a key of the operator. It must still be the one that was asked for: the
// record names its fingerprint.
func (r *run) sshKey(ctx context.Context, k api.SSHKey) (sshagent.Key, error) {
	if k.Agent != "" {
		return sshagent.Upstream{Socket: string(k.Agent)}.Key(ctx, k.Fingerprint)
	}
	file := string(k.File)
	if err := r.e.OutsideWorkspaces("ssh key", file); err != nil {
		return nil, err
	}
	f, err := injection.OpenSecret(file, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, err
	}
	defer clear(text)
	key, err := sshkey.ParsePrivate(text)
	if err != nil {
		return nil, err
	}
	if key.Public().Fingerprint() != k.Fingerprint {
		return nil, errors.New("its file has another key now")
	}
	return sshagent.Local(key), nil
}

// keysOutside refuses a run that would show the file of a key in its cell.
func (r *run) keysOutside(g *gate) error {
	if g == nil || g.ssh == nil {
		return nil
	}
	shown := append([]string{}, r.spec.ReadOnly...)
	shown = append(shown, r.spec.System.Paths...)
	for _, b := range r.spec.Mounts.Binds {
		shown = append(shown, b.Source)
	}
	for _, k := range g.ssh.Keys {
		file := string(k.File)
		if file == "" {
			continue
		}
		for _, dir := range shown {
			if real, err := fsx.RealPath(dir); err == nil && fsx.Within(file, real) {
				return api.Refusef(api.CodeCredential, "keep the key elsewhere, or do not show the directory", "the ssh key %s is in %s, which the cell sees", quote.Path(file), quote.Path(dir))
			}
		}
		if inSystem(file) {
			return api.Refusef(api.CodeCredential, "keep the key in your home", "the ssh key %s is in a directory of the system, which cells see", quote.Path(file))
		}
	}
	return nil
}

// recordSSH records what the agent did with a request.
func (r *run) recordSSH(d sshagent.Decision) {
	s := event.Subject{Verdict: event.Denied, Rule: "ssh-agent", Reason: d.Reason, Process: event.Process{PID: d.PID, Binary: d.Binary}}
	if d.Allowed {
		s.Verdict = event.Allowed
	}
	if d.Key != "" {
		s.Message = "key " + d.Key
		if d.User != "" {
			s.Message += fmt.Sprintf(", as %.64q", d.User)
		}
	}
	r.recordEvent(event.SSH(s, event.Login{Host: d.Host, Port: int(d.Port)}))
}

// sshFiles returns the configuration of ssh and the known hosts in the cell's /etc.
func sshFiles(q *api.SSHRequest) []network.File {
	if q == nil {
		return nil
	}
	var known strings.Builder
	known.WriteString("# The hosts that this session may log in to, from the operator's list.\n")
	for _, h := range q.Hosts {
		for _, key := range h.Keys {
			known.WriteString(sshkey.Name(h.Host, h.Port) + " " + key + "\n")
		}
	}
	return []network.File{{Name: "ssh/ssh_config", Data: q.Config}, {Name: "ssh/ssh_known_hosts", Data: []byte(known.String())}}
}

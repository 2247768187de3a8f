package session

import (
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// AsAgent is the way of an ssh key that stays outside: an agent signs with it to log in
// to listed hosts.
const AsAgent = "ssh-agent filter"

// sshConfig comes first in the configuration of ssh in a cell: the first value of a
// setting counts.
const sshConfig = `# Keys are outside of this cell. The agent at SSH_AUTH_SOCK signs with them, to log
# in to the hosts of /etc/ssh/ssh_known_hosts.
Host *
    GlobalKnownHostsFile /etc/ssh/ssh_known_hosts
    UserKnownHostsFile none
    StrictHostKeyChecking yes
    UpdateHostKeys no
    ForwardAgent no
    AddKeysToAgent no
    IdentitiesOnly no
`

// sshPlan describes what a session may do by SSH.
type sshPlan struct {
	request     *api.SSHRequest
	credentials []Credential
	notes       []string
	unsafe      bool
}

// ssh decides to which hosts a session logs in with which keys: those that the
// injection policy lists, else those of the session's endpoints whose key is known.
func (q *Facts) ssh(rules *policy.Policy) (sshPlan, error) {
	s := q.carriers().SSH
	if s == nil {
		return sshPlan{}, nil
	}
	p := sshPlan{request: &api.SSHRequest{Config: append([]byte(sshConfig), s.Config...)}, unsafe: s.Unsafe != ""}
	hosts := s.Hosts
	if len(hosts) == 0 {
		hosts = sshEndpoints(rules)
	}
	var listed []string
	for _, h := range hosts {
		keys := s.Known.Keys(h.Host, h.Port)
		if len(keys) == 0 && len(s.Hosts) > 0 {
			return sshPlan{}, api.Refusef(api.CodeCredential, "connect to it once from the host, and check its key; certificates of hosts are not supported",
				"ssh.known_hosts has no key of %s", quote.Line(h.String()))
		}
		if len(keys) == 0 {
			continue
		}
		out := api.SSHHost{Host: h.Host, Port: h.Port, User: h.User}
		for _, k := range keys {
			out.Keys = append(out.Keys, k.Text())
		}
		p.request.Hosts = append(p.request.Hosts, out)
		listed = append(listed, h.String())
		if !reachable(rules, h.Endpoint) {
			p.notes = append(p.notes, "the network policy does not allow "+h.Endpoint.String()+"; add it to allow_endpoints of the injection policy")
		}
	}
	if len(listed) == 0 && len(s.Keys) > 0 {
		p.notes = append(p.notes, "no endpoint of the session has a key in known_hosts, so no key signs; list hosts in the injection policy")
		listed = []string{"no host"}
	}
	for _, k := range s.Keys {
		p.request.Keys = append(p.request.Keys, k.SSHKey)
		p.credentials = append(p.credentials, Credential{Key: "ssh key " + k.Fingerprint, How: AsAgent, Source: k.Source + " for " + strings.Join(listed, ", ")})
	}
	return p, nil
}

// sshEndpoints returns the endpoints of a policy that pass TCP on, with exact names.
func sshEndpoints(p *policy.Policy) []injection.SSHHost {
	var out []injection.SSHHost
	for _, n := range p.Network {
		for _, e := range n.Endpoints {
			if e.Protocol != policy.TCP || !e.Host.Exact() {
				continue
			}
			for _, port := range e.Ports {
				h := injection.SSHHost{Endpoint: injection.Endpoint{Host: e.Host.String(), Port: port}}
				if p.PassesTCP(h.Host, port) && !slices.Contains(out, h) {
					out = append(out, h)
				}
			}
		}
	}
	return out
}

// reachable reports whether a policy passes TCP on to an endpoint.
func reachable(p *policy.Policy, to injection.Endpoint) bool {
	return p.PassesTCP(to.Host, to.Port)
}

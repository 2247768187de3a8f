package cli

import (
	"strings"

	agentsession "github.com/forkcell/forkcell/internal/session"
	"github.com/forkcell/forkcell/internal/session/credentials"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// sshWay is how ssh keys get in: they do not.
const sshWay = agentsession.AsAgent

// sshStatus is the part of an injection policy about SSH, for an agent in a mode.
type sshStatus struct {
	Readiness  string   `json:"readiness"`
	Problem    string   `json:"problem,omitempty"`
	Next       string   `json:"next_step,omitempty"`
	Identities []string `json:"identities"`
	// Hosts are those that the policy lists; none leaves it to the session's endpoints.
	Hosts []string `json:"hosts"`
}

// sshOf finds out what a session of an agent may do by SSH; nil if nothing.
func (o authFlags) sshOf(q credentials.Request) *sshStatus {
	if !credentials.UsesSSH(q.Policy, q.Adapter.Name, o.mode) {
		return nil
	}
	out := &sshStatus{Readiness: credentials.Ready, Identities: append([]string{}, q.Policy.SSH.Identities...), Hosts: []string{}}
	for _, h := range q.Policy.SSH.Hosts {
		out.Hosts = append(out.Hosts, h.String())
	}
	if _, err := credentials.ReadSSH(q.Policy, q.Adapter.Name, o.mode, q.Host); err != nil {
		body := bodyOf(err)
		out.Readiness, out.Problem, out.Next = credentials.ConfiguredOnly, body.Message, body.Hint
	}
	return out
}

// source returns the keys for a line of a table.
func (s *sshStatus) source() string {
	if len(s.Identities) == 0 {
		return "no key"
	}
	return quote.Line(strings.Join(s.Identities, ", "))
}

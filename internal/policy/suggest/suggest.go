// Package suggest reads the events of a run: which destinations it was denied, and
// which policy would have allowed them, for a person to review.
//
// It knows events, command lines and policies. It knows no store, no engine and no
// cell, and it applies no policy.
package suggest

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/match"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Run is a run to suggest a policy for.
type Run struct {
	Cell string // the name of its cell
	ID   string
	// Policy is the one that the run ended with, or has now. It is not changed.
	Policy *policy.Policy
	// Commands are the run's command lines. They may name ports of hosts whose
	// names were looked up only.
	Commands []string
	// Unobserved reports that the run had no network at all, so that its events do
	// not say what it would have connected to.
	Unobserved bool
	// Events reads the run's events that match a filter.
	Events func(event.Filter) iter.Seq2[event.Record, error]
	// Parse reads a policy's text under the rules that the caller's files have.
	Parse func(text []byte) (*policy.Policy, error)
}

// Policy returns the policy of a run with what the run was denied added to it.
func Policy(r Run) (*api.PolicySuggestion, error) {
	b, err := newBuilder(r)
	if err != nil {
		return nil, err
	}
	for rec, err := range r.Events(event.Filter{Action: event.ActionDenied}) {
		if err != nil {
			return nil, api.Failf(api.CodeEvents, err, "read the events of %s", r.ID)
		}
		b.addEvent(rec)
	}
	if r.Unobserved {
		b.addCommandHosts()
	}
	return b.suggestion()
}

// CommandLines returns the command lines in a run's events.
func CommandLines(events iter.Seq2[event.Record, error]) []string {
	var lines []string
	for rec, err := range events {
		var line struct {
			Process struct {
				CmdLine string `json:"cmd_line"`
			} `json:"process"`
		}
		if err == nil && json.Unmarshal(rec.Raw, &line) == nil {
			lines = append(lines, line.Process.CmdLine)
		}
	}
	return lines
}

// builder adds what was denied to a copy of a run's policy.
type builder struct {
	run      Run
	policy   policy.Policy
	commands []string
	attempts []attempt
	left     []string // see api.PolicySuggestion
}

func newBuilder(r Run) (*builder, error) {
	policy, err := r.Parse(r.Policy.Canonical())
	if err != nil {
		return nil, err
	}
	b := &builder{run: r, policy: *policy, commands: slices.Clone(r.Commands)}
	for _, v := range policy.Environment.Set {
		b.commands = append(b.commands, v.Value) // such as the URL of a registry
	}
	return b, nil
}

// attempt is a connection that a program was denied, or with a method a request.
type attempt struct {
	host         string
	port         uint16
	binary       string
	method, path string
	// lookedUp reports that only the name was looked up, inCommand that the host was
	// only found on a command line.
	lookedUp, inCommand bool
	// plain reports that it is plain HTTP on a port other than 80, slash that its
	// path has an encoded slash.
	plain, slash bool
	// addr is an address of the host that allowed_ips has to list.
	addr netip.Addr
}

func (a attempt) String() string {
	at := fmt.Sprintf("%s port %d", a.host, a.port)
	if a.plain {
		at += " in plain HTTP"
	}
	switch {
	case a.addr.IsValid():
		return at + " at the address " + a.addr.String()
	case a.inCommand:
		return at + ", reading only, by any program: only a command line names it, the rest is assumed"
	case a.lookedUp:
		return at + ", reading only, by any program: only the name was asked for, the rest is assumed"
	case a.method != "":
		at = fmt.Sprintf("%s %s at %s", a.method, a.path, at)
	}
	if a.binary == anyProgram {
		return at + " by any program"
	}
	return at + " by " + a.binary
}

// request returns what the policy has to allow.
func (a attempt) request() policy.Request {
	q := policy.Request{Host: a.host, Port: a.port, Binary: a.binary, Method: a.method, Path: a.path}
	if a.binary == anyProgram {
		q.Binary = ""
	}
	if a.plain {
		q.Scheme = policy.HTTP
	}
	return q
}

const anyProgram = "/**"

// offline is the reason of a connection in a cell without a network.
const offline = "endpoint: the cell has no network"

// noName is how the reason of a name that no rule lists begins.
const noName = "no rule allows"

// maxSuggested bounds the suggestion for a run full of denials.
const maxSuggested = 256

// addEvent takes an event of something that was denied.
func (b *builder) addEvent(rec event.Record) {
	var d deniedEvent
	if json.Unmarshal(rec.Raw, &d) != nil {
		return
	}
	switch d.Class {
	case event.NetworkActivity, event.HTTPActivity:
		b.addConnection(d)
	case event.DNSActivity:
		b.addLookup(d)
	default:
	}
}

func (b *builder) addConnection(d deniedEvent) {
	a := attempt{host: d.Endpoint.Host, port: uint16(d.Endpoint.Port), binary: d.Actor.Process.File.Path}
	if a.host == "" {
		a.host = d.Endpoint.IP
	}
	if d.Reason == offline {
		a.binary = anyProgram // whether a rule could name it was not looked at
	}
	// The event's hint names any program where the cell could have written this one.
	if a.binary == "" || strings.Contains(d.Message, `binaries: [{path: "/**"}]`) {
		a.binary = anyProgram
	}
	if d.Class == event.HTTPActivity && d.Request.Method != "CONNECT" {
		a.method, a.path = d.Request.Method, d.Request.URL.Path
	}
	layer, why, _ := strings.Cut(d.Reason, ": ")
	switch {
	case strings.HasPrefix(d.Rule.Name, "ceilings["):
		b.leave(a, "a ceiling of the policy denies it: "+d.Rule.Name)
	case strings.Contains(d.Rule.Name, ".deny_rules["):
		b.leave(a, "a deny rule matches it: "+d.Rule.Name)
	case layer == "destination" && listable(why).IsValid():
		b.addAttempt(attempt{host: a.host, port: a.port, binary: anyProgram, addr: listable(why)})
	case layer == "tls" && a.method != "" && strings.HasPrefix(why, "plain HTTP, "):
		a.plain = true
		b.addAttempt(a)
	case layer == "request" && why == match.ErrEncodedSlash.Error():
		a.slash = true
		if canonical, err := match.URLPath(a.path, true); err == nil {
			a.path = canonical // a path that is refused stands in the event as it came
		}
		b.addAttempt(a)
	case layer != "endpoint" && layer != "request":
		b.leave(a, why)
	case layer == "request" && d.Unmapped.Layer != "" && d.Unmapped.Layer != policy.REST.String():
		b.leave(a, "the decision depends on its content; the smallest rule is "+d.Message)
	default:
		a.plain = a.method == "" && slices.Contains(portsIn(b.commands, a.host), target{port: a.port, plain: true})
		b.addAttempt(a)
	}
}

// listable returns the address that allowed_ips would have to list, if that is the
// reason of a denial; else it is not valid.
func listable(why string) netip.Addr {
	_, rest, _ := strings.Cut(why, " resolves to ")
	text, rest, _ := strings.Cut(rest, ", which ")
	addr, err := netip.ParseAddr(text)
	if err != nil || !strings.Contains(rest, "allowed_ips") {
		return netip.Addr{}
	}
	return addr
}

// addLookup takes a name that could not be looked up. The event does not say where
// the program would have connected to: the text of the attempt says what is assumed.
func (b *builder) addLookup(d deniedEvent) {
	host := d.Query.Host
	if isService(host) || slices.ContainsFunc(b.policy.Network, func(n policy.NetworkPolicy) bool {
		return slices.ContainsFunc(n.Endpoints, func(e policy.Endpoint) bool { return e.Host.Match(host) })
	}) {
		return
	}
	at := portsIn(b.commands, host)
	if len(at) == 0 {
		at = []target{{port: 443}}
	}
	for _, p := range at {
		a := attempt{host: host, port: p.port, plain: p.plain, binary: anyProgram, lookedUp: true}
		if !strings.HasPrefix(d.Reason, noName) {
			b.leave(a, d.Reason)
			continue
		}
		b.addAttempt(a)
	}
}

// isService reports whether a name is not one of a host: one such as
// _http._tcp.a.example finds a service, and no program connects to it.
func isService(name string) bool {
	return strings.HasSuffix(name, ".arpa") || strings.HasPrefix(name, "_")
}

// addCommandHosts takes the hosts of the URLs on command lines, for a run whose
// events do not have them.
func (b *builder) addCommandHosts() {
	for _, host := range hostsIn(b.commands) {
		for _, p := range portsIn(b.commands, host) {
			b.addAttempt(attempt{host: host, port: p.port, plain: p.plain, binary: anyProgram, inCommand: true})
		}
	}
}

func (b *builder) addAttempt(a attempt) {
	if !slices.Contains(b.attempts, a) && len(b.attempts) < maxSuggested {
		b.attempts = append(b.attempts, a)
	}
}

// leave notes an attempt that the suggested policy denies too.
func (b *builder) leave(a attempt, why string) {
	text := a.String() + ": " + why
	if !slices.Contains(b.left, text) && len(b.left) < maxSuggested {
		b.left = append(b.left, text)
	}
}

// suggestion adds the attempts to the policy. Each addition is checked with the
// policy as it will be read.
func (b *builder) suggestion() (*api.PolicySuggestion, error) {
	suggested, err := b.extend()
	if err != nil {
		return nil, api.Failf(api.CodePolicy, err, "make a policy of what was denied")
	}
	res := &api.PolicySuggestion{
		Cell: b.run.Cell, RunID: b.run.ID, PolicyHash: suggested.Digest(), Before: b.run.Policy.Digest(),
		Added: []string{}, Left: []string{}, Unseen: b.run.Unobserved,
	}
	for _, a := range b.attempts {
		if x := suggested.ExplainRequest(a.request()); x.Allowed {
			res.Added = append(res.Added, a.String())
		} else {
			b.leave(a, x.Reason)
		}
	}
	res.Left = append(res.Left, b.left...)
	if res.Policy, err = json.Marshal(suggested); err != nil {
		return nil, err
	}
	res.Text = File(res, suggested.Canonical())
	return res, nil
}

// extend returns the policy with the attempts added one by one. An attempt that cannot
// be part of a policy, such as one at an address where no cell may connect to, is left
// out and named.
func (b *builder) extend() (*policy.Policy, error) {
	last, err := b.run.Parse(b.policy.Canonical())
	if err != nil {
		return nil, err
	}
	b.attempts = slices.DeleteFunc(b.attempts, func(a attempt) bool {
		err := b.add(a)
		if err == nil {
			var next *policy.Policy
			if next, err = b.run.Parse(b.policy.Canonical()); err == nil {
				last = next
				return false
			}
		}
		b.leave(a, inPolicy(err))
		if before, err := b.run.Parse(last.Canonical()); err == nil {
			b.policy = *before // add may have changed a part
		}
		return true
	})
	return last, nil
}

// inPolicy returns an error about a policy's text without the place in a text that
// nobody sees.
func inPolicy(err error) string {
	if _, why, found := strings.Cut(err.Error(), "].host: "); found {
		return why
	}
	return err.Error()
}

// File returns a suggestion as a policy file: a comment, and the canonical text of the
// policy.
func File(p *api.PolicySuggestion, canonical []byte) []byte { return append(comment(p), canonical...) }

// comment returns the comment at the head of a suggested policy's file.
func comment(p *api.PolicySuggestion) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, "# The policy of %s in cell %s, and what it was denied. Review it before use.\n", p.RunID, quote.Line(p.Cell))
	if p.Unseen {
		text.WriteString("# The run had no network at all, and nothing was seen that it wanted to connect to.\n" +
			"# Run it with a network: --policy dev allows the package registries of your own\n" +
			"# tools, `forkcell policy list` shows more. What is denied then is seen, and\n" +
			"# forkcell policy suggest adds it.\n")
	}
	if len(p.Added) == 0 {
		text.WriteString("# Nothing is added.\n")
	}
	for _, line := range p.Added {
		text.WriteString("# added: " + quote.Line(line) + "\n")
	}
	for _, line := range p.Left {
		text.WriteString("# still denied: " + quote.Line(line) + "\n")
	}
	return []byte(text.String())
}

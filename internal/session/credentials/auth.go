// Package credentials decides which credentials a session of an agent gets, how each gets
// in, and why. It is the only place of that decision: sessions, why and inspect use
// it alike.
//
// It looks at the injection policy, at the adapter of the agent, and at what the host
// has. It reads no value of a credential. It must not know cells, sessions or the
// command line.
package credentials

import (
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/session/adapter"
)

// The ways in which a credential gets into a session, from the safest.
const (
	// Placeholder means that the cell has a text that is worth nothing.
	Placeholder = adapter.AsPlaceholder
	// Header means that the cell has nothing, and the proxy adds a header.
	Header = adapter.AsHeader
	// Copy means that the cell has the value itself.
	Copy = "copy"
)

// The states of a credential.
const (
	Absent           = "absent"            // nothing is configured
	OutOfScope       = "out-of-scope"      // the agent does not use it
	FilteredProvider = "filtered-provider" // configured for other agents
	FilteredMode     = "filtered-mode"     // configured for other modes
	Ready            = "ready"             // the source can be read
	HostSource       = "host-source"       // the agent's login on this host can be read
	ConfiguredOnly   = "configured-only"   // configured, and the source cannot be read
)

// The kinds of source.
const (
	FromNothing  = "none"
	FromSource   = "source"
	FromResolver = "resolver"
	FromVariable = "variable" // a variable of the caller, without an entry
)

// Decision says whether a session gets a credential, how, and why.
type Decision struct {
	api.CredentialDecision

	// Entry is the entry of the policy; its key is "" if there is none.
	Entry injection.Credential `json:"-"`
	// Spec is the credential of the adapter; its key is "" if a file is copied.
	Spec adapter.Credential `json:"-"`
	// Target is the path below the cell's home of a file that is copied.
	Target string `json:"-"`
}

// Usable reports whether a session gets the credential and its value can be had.
func (d Decision) Usable() bool { return d.Selected && d.Problem == "" }

// Request is a session that may get credentials.
type Request struct {
	Adapter *adapter.Adapter
	Mode    string
	// Policy is the injection policy; nil if there is none.
	Policy *injection.Policy
	Host   Host
}

// Decide returns the decision about every credential of the agent, in its order of
// preference, then about files that can only be copied.
func Decide(r Request) []Decision {
	var out []Decision
	for _, spec := range r.Adapter.Credentials {
		out = append(out, r.decideConfigured(spec.Key, spec, ""))
	}
	for _, f := range copied() {
		if slices.Contains(f.agents, r.Adapter.Name) {
			out = append(out, r.decideConfigured(f.key, adapter.Credential{}, f.target))
		}
	}
	r.preferFirst(out)
	r.variables(out)
	return out
}

// Why returns the decision about one credential.
func Why(r Request, key string) Decision {
	for _, d := range Decide(r) {
		if d.Credential == key {
			return d
		}
	}
	return Decision{CredentialDecision: api.CredentialDecision{
		Credential: key, Readiness: OutOfScope, Input: FromNothing,
		Reason: "credential is not in scope for agent " + r.Adapter.Name,
	}}
}

// decideConfigured decides about a credential by its entry in the policy. The target is that
// of a file that can only be copied.
func (r Request) decideConfigured(key string, spec adapter.Credential, target string) Decision {
	d := Decision{Spec: spec, Target: target, CredentialDecision: api.CredentialDecision{
		Credential: key, Input: FromNothing, Readiness: Absent, Reason: "not configured in policy", Endpoints: endpoints(spec),
	}}
	if r.Policy == nil {
		d.Next = setCommand(r.Adapter.Name, key)
		return d
	}
	e, ok := r.Policy.Credentials[key]
	if !ok {
		d.Next = setCommand(r.Adapter.Name, key)
		return d
	}
	d.Entry, d.Providers, d.Modes, d.Resolver = e, e.Agents, e.Modes, e.Resolver
	d.Input = FromSource
	if e.Resolver != "" {
		d.Input = FromResolver
	}
	d.Reason = reason(e, r.Adapter.Name, r.Mode)
	switch {
	case len(e.Agents) > 0 && !slices.Contains(e.Agents, r.Adapter.Name):
		d.Readiness = FilteredProvider
		return d
	case len(e.Modes) > 0 && !slices.Contains(e.Modes, r.Mode):
		d.Readiness = FilteredMode
		return d
	}
	d.Selected = true
	d.How = spec.How
	if e.Copy {
		d.How = Copy
	}
	r.Host.look(&d)
	return d
}

// reason returns why an entry is selected or not, in Workcell's words.
func reason(e injection.Credential, name, mode string) string {
	if e.Scalar {
		return "scalar credential entry is selected without provider or mode restrictions"
	}
	clause := func(list []string, value, thing, plural string) string {
		switch {
		case len(list) == 0:
			return plural + " not restricted"
		case slices.Contains(list, value):
			return thing + " matches " + plural
		default:
			return thing + " does not match " + plural
		}
	}
	return clause(e.Agents, name, "agent", "providers") + "; " + clause(e.Modes, mode, "mode", "modes")
}

// preferFirst leaves out credentials that an earlier one excludes.
func (r Request) preferFirst(list []Decision) {
	for i, d := range list {
		if !d.Selected {
			continue
		}
		for j := range list {
			if other := &list[j]; j != i && other.Selected && slices.Contains(d.Spec.Excludes, other.Credential) {
				other.Selected, other.How = false, ""
				other.Reason = "left out: " + d.Credential + " is used"
			}
		}
	}
}

// variables selects the variables of the caller that the adapter names, if nothing is
// configured for the agent: a program that works on the host then works in a cell.
func (r Request) variables(list []Decision) {
	if slices.ContainsFunc(list, func(d Decision) bool { return d.Entry.Key != "" && d.Spec.Key != "" }) {
		return
	}
	for i := range list {
		d := &list[i]
		variable := r.Host.firstSet(append([]string{d.Spec.Variable}, d.Spec.Sources...))
		if d.Spec.Variable == "" || variable == "" {
			continue
		}
		d.Selected, d.How, d.Input, d.Readiness, d.Next = true, d.Spec.How, FromVariable, Ready, ""
		d.Source = "env:" + variable
		d.Reason = "not configured in policy; the variable " + variable + " of the caller is used"
	}
	r.preferFirst(list)
}

func endpoints(c adapter.Credential) []string {
	var out []string
	for _, part := range c.Parts() {
		for _, e := range part.Endpoints {
			out = append(out, injection.Endpoint{Host: e.Host, Port: uint16(e.Port)}.String()+e.Path)
		}
	}
	return out
}

func setCommand(name, key string) string {
	return strings.Join([]string{"forkcell auth set --agent", name, "--credential", key, "--source PATH|env:NAME"}, " ")
}

// DecideGiven returns the decision about a credential whose source the operator gave for
// this session. The error does not hold the source, which may be a value by mistake.
func DecideGiven(spec adapter.Credential, source string) (Decision, error) {
	from, err := credential.ParseSource(source)
	if err != nil {
		return Decision{}, api.Usagef("", "--credential %s: %s", spec.Key, credential.ErrSource)
	}
	d := Decision{Spec: spec, CredentialDecision: api.CredentialDecision{
		Credential: spec.Key, Selected: true, How: spec.How, Reason: "given by --credential", Readiness: Ready, Input: FromSource,
		Source: from.String(), Endpoints: endpoints(spec),
	}}
	d.Entry.Source = source
	if name, ok := strings.CutPrefix(source, "file:"); ok && path.IsAbs(name) {
		d.Entry.Source = name // a login is read as a file
	}
	return d, nil
}

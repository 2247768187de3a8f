package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/agent"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/auth"
	"github.com/forkcell/forkcell/internal/injection"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/preset"
	"github.com/forkcell/forkcell/internal/quote"
	agentsession "github.com/forkcell/forkcell/internal/session"
)

// policies reads what the mode and the operator add to the agent's policy.
func (r *agentRun) policies(q *agentsession.Request) (err error) {
	if q.Mode == agentsession.Development || q.Mode == agentsession.Build {
		file := readPreset(preset.Dev)
		if q.Development, err = policy.Parse(string(file.Name), file.Text, policy.Options{}); err != nil {
			return err
		}
		r.options.Network.Resolve = withPins(r.options.Network.Resolve, file.Resolve)
	}
	if r.options.Policy != nil {
		q.Extra, err = policy.Parse(string(r.options.Policy.Name), r.options.Policy.Text, policy.Options{})
		if err != nil {
			return &api.Error{Kind: api.Usage, Code: api.CodePolicy, Message: err.Error(), Err: err}
		}
	}
	return nil
}

// credentials decides which credentials the session uses: those of --credential, else
// those of the injection policy, else those of the environment.
func (r *agentRun) credentials(q *agentsession.Request) error {
	a := r.entry.Adapter
	var others []string
	var decisions []auth.Decision
	for _, text := range r.options.Network.Credentials {
		key, source, _ := strings.Cut(text, "=")
		c, known := a.Credential(key)
		if !known || source == "" {
			others = append(others, text)
			continue
		}
		d, err := auth.Given(c, source)
		if err != nil {
			return err
		}
		decisions = append(decisions, d)
	}
	r.options.Network.Credentials = others
	o := authFlags{policy: r.opts.injection, agent: a.Name, mode: q.Mode}
	store, _, err := o.store()
	if err != nil {
		return err
	}
	p, err := o.load(store)
	if err != nil {
		return err
	}
	if p != nil {
		q.InjectionPolicy = injectionHash(p)
	}
	request := o.request(a, p, r.place.Root)
	if len(decisions) == 0 {
		decisions = auth.Decide(request)
	}
	if q.Grant, err = auth.NewGrant(decisions, request.Host); err != nil {
		return err
	}
	if err := q.Grant.Inject(p, a.Name, q.Mode, request.Host); err != nil {
		return err
	}
	if p != nil {
		q.Endpoints = p.Network
	}
	for _, d := range decisions {
		if d.Selected {
			q.Credentials = append(q.Credentials, agentsession.Credential{Key: d.Credential, How: d.How, Source: d.Source})
		}
	}
	for _, c := range q.Grant.Copies() {
		q.Credentials = append(q.Credentials, agentsession.Credential{Key: c.Key, How: auth.Copy, Source: c.Source})
	}
	return nil
}

// injectionHash returns the hash of an injection policy: that of the hashes of its
// files.
func injectionHash(p *injection.Policy) string {
	sum := sha256.New()
	for _, f := range p.Sources {
		_, _ = io.WriteString(sum, f.SHA256) // a hash takes everything
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Limits of a session without others. Those on memory and processes are Workcell's, and
// hold where the host can enforce them. There is none on the disk: no kernel enforces
// one for a directory, and a session would be less assured with it.
const (
	strictMemory = 6 << 30
	otherMemory  = 8 << 30
	sessionPIDs  = 1024
	sessionTime  = 7 * 24 * time.Hour
)

// limits sets the limits of a session for which the operator gave none.
func (r *agentRun) limits(q *agentsession.Request) {
	q.Limits = policy.Limits{Memory: otherMemory, PIDs: sessionPIDs, WallTime: sessionTime}
	if q.Mode == agentsession.Strict {
		q.Limits.Memory = strictMemory
	}
	if r.opts.Memory != 0 {
		q.Limits.Memory = 0 // the flag sets it
	}
	if r.opts.PIDs != 0 {
		q.Limits.PIDs = 0
	}
	if r.opts.Timeout != 0 {
		q.Limits.WallTime = 0
	}
}

// printSessionPlan prints what was decided about a session.
func printSessionPlan(out *page, p *agentsession.Plan) {
	version := p.Terms.AgentVersion
	switch {
	case version == "":
		version = "of unknown version"
	case p.VersionPlace == agent.VersionTested:
		version += " (tested)"
	case p.VersionPlace != agent.VersionUnknown:
		version += " (" + p.VersionPlace + ")"
	}
	out.printf("%s %s, mode %s, %s\n", quote.Line(p.Title), quote.Line(version), p.Terms.Mode, p.Terms.Autonomy)
	credentials := strings.Join(p.Terms.Credentials, "; ")
	if credentials == "" {
		credentials = "none"
		if len(p.MissingCredentials) > 0 {
			credentials += "; it can use " + strings.Join(p.MissingCredentials, ", ")
		}
	}
	masked := "nothing"
	if p.Terms.ControlPlane != "unmasked" {
		masked = "all control files of agents, editors and git"
		if len(p.Masked) > 0 {
			masked += ", among them " + strings.Join(p.Masked, ", ")
		}
	}
	out.pairs(
		"program", quote.Path(p.Program), "workspace", quote.Path(p.Workspace), "reaches", reaches(p.Terms),
		"credentials", quote.Line(credentials), "ssh", quote.Line(strings.Join(p.SSHNotes, "; ")), "masked", quote.Line(masked), "limits", limitsText(p.Policy().Limits, p.OptionalLimits), "turns", turnsText(p), "assurance", p.Terms.Assurance,
	)
}

// turnsText says when turns are recorded.
func turnsText(p *agentsession.Plan) string {
	t, when := p.Turns(), "one for each request"
	switch {
	case t == nil:
		return "none"
	case t.Every > 0:
		when = "every " + p.Terms.Turns
	case t.Quiet > 0:
		when = "one after " + t.Quiet.String() + " without input or output"
	case p.Terms.Turns == agentsession.TurnsTool:
		when = "one for each use of a tool"
	}
	return when + "; forkcell session rewind goes back"
}

// maxReaches is how many endpoints the block before a start names.
const maxReaches = 6

func reaches(t api.SessionTerms) string {
	if len(t.Endpoints) == 0 {
		return "nothing"
	}
	list := t.Endpoints
	more := ""
	if n := len(list) - maxReaches; n > 0 {
		list, more = list[:maxReaches], " and "+count(int64(n), "other", "others")
	}
	return quote.Line(strings.Join(list, ", ") + more)
}

func limitsText(l policy.Limits, optional bool) string {
	var parts []string
	if l.Memory > 0 {
		parts = append(parts, size(l.Memory)+" of memory")
	}
	if l.PIDs > 0 {
		parts = append(parts, count(l.PIDs, "process", "processes"))
	}
	if optional && len(parts) > 0 {
		parts = []string{strings.Join(parts, " and ") + " if this host can enforce that"}
	}
	if l.WallTime > 0 {
		parts = append(parts, l.WallTime.String())
	}
	if l.Disk > 0 {
		parts = append(parts, size(l.Disk)+" of disk")
	}
	return strings.Join(parts, ", ") // flags may set more
}

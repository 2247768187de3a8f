package session

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/session/credentials"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/internal/text/redact"
)

// AsCopy is the way of a credential whose value is copied into the cell. It lowers the
// assurance.
const AsCopy = "copy"

// Credential is a secret that a session uses, by name.
type Credential = api.AgentCredential

// asCopy follows the key in the text of a credential that is copied.
const asCopy = ": " + AsCopy + ", from "

// Facts has the inputs from which a session is planned.
type Facts struct {
	Adapter      *adapter.Entry
	Installation *adapter.Installation
	Workspace    string
	// Directory is where the agent starts: below the workspace, or absolute.
	Directory string
	Mode      string
	Autonomy  string
	// Arguments are the user's, for the agent.
	Arguments []string
	// Earlier are the terms of the session that is resumed, nil for a new one. The
	// agent's last conversation is continued, if it can.
	Earlier *api.SessionTerms
	Allow   Allowances
	// Acknowledged maps what was acknowledged to the date that was given.
	Acknowledged map[string]string
	Now          time.Time
	Credentials  []Credential
	// Endpoints are those that the injection policy adds and denies.
	Endpoints injection.Network
	// Grant carries the credentials out; nil if there are none.
	Grant *credentials.Grant
	// InjectionPolicy is the SHA-256 of the operator's injection policy, or "".
	InjectionPolicy string
	// Development is the policy for code hosts and registries, for the modes that use
	// it; Extra is the operator's own, added to the adapter's.
	Development, Extra *policy.Policy
	Cache              string
	// KeptHome reports that the session begins with the home of the cell.
	KeptHome bool
	// OnTop reports that the session begins with the undecided work of the cell.
	OnTop bool
	Turns string
	// Masks reports whether the engine masks the control files of the workspace.
	Masks bool
	// Degraded reports that the operator allowed controls to be missing.
	Degraded bool
	// Limits are those of a session whose operator's policy has none.
	Limits policy.Limits
	// Packages lets package managers run as root in the cell. NoPackages is why they do
	// not in a mode in which they should.
	Packages   bool
	NoPackages string
	// Unrestricted lets the session reach every host.
	Unrestricted bool
}

// Plan has the decisions about a session before it starts.
type Plan struct {
	api.SessionPlan

	Command []string `json:"-"`

	directory string // raw
	adapter   *adapter.Adapter
	grant     *credentials.Grant
	policy    *policy.Policy
	addresses []string            // that the operator's files grant
	own       *policy.Policy      // what the agent needs, without the mode and the caller's policy
	control   *api.ControlRequest // nil if nothing is masked
	turns     *api.TurnRequest    // nil if none is taken
	ssh       *api.SSHRequest     // nil if the session does not log in to hosts
	packages  bool                // package managers run as root in the cell
}

// Make decides everything about a session, and starts nothing. It asks no questions: what it
// depends on is in the request.
func Make(q Facts) (*Plan, error) {
	acknowledged, err := checkMode(&q)
	if err != nil {
		return nil, err
	}
	a := q.Adapter.Adapter
	arguments, err := q.arguments()
	if err != nil {
		return nil, err
	}
	turns, err := q.turnRequest()
	if err != nil {
		return nil, err
	}
	if err := q.checkCopies(); err != nil {
		return nil, err
	}
	rules, err := q.policy()
	if err != nil {
		return nil, err
	}
	own, err := q.ownPolicy()
	if err != nil {
		return nil, err
	}
	addresses, err := q.addresses()
	if err != nil {
		return nil, err
	}
	ssh, err := q.ssh(rules)
	if err != nil {
		return nil, err
	}
	reasons := facts{q.Mode, q.Allow, q.Cache == "standard", q.KeptHome, q.Credentials, ssh.unsafe, q.Degraded, q.Masks, q.earlierReasons()}.reasons()
	credentials := slices.Concat([]Credential{}, q.Credentials, ssh.credentials)
	p := &Plan{
		Command: arguments, adapter: a, grant: q.carriers(), policy: rules, own: own, addresses: addresses, control: q.control(), turns: turns, ssh: ssh.request, packages: q.Packages, directory: q.startDir(),
		SessionPlan: api.SessionPlan{
			KeptHome: q.KeptHome, OnTop: q.OnTop, Title: a.Title, Workspace: q.Workspace, Show: []string{}, Environment: a.Environment, UsedCredentials: credentials,
			MissingCredentials: []string{}, Reasons: append([]string{}, reasons...), Masked: q.maskedPaths(), PolicyHash: rules.Digest(),
			Notes: append([]string{}, a.Notes...), SSHNotes: ssh.notes, OptionalLimits: !q.hasLimits(), Packages: q.packagesText(),
			Limits: limitsOf(rules.Limits), TurnsTaken: q.turnsText(turns),
		},
	}
	version := ""
	if in := q.Installation; in != nil {
		p.Program, p.Show, version = in.Program, in.Show, in.Version
	}
	p.VersionPlace = a.Tested.Place(version)
	if len(q.Credentials) == 0 && len(a.Credentials) > 0 {
		p.MissingCredentials = a.Keys()
	}
	sum := sha256.Sum256(q.Adapter.Text)
	p.Terms = api.SessionTerms{
		Agent: a.Name, AgentVersion: version, Adapter: hex.EncodeToString(sum[:]), Mode: q.Mode, Autonomy: q.Autonomy,
		Assurance: Label(reasons), AutonomyAssurance: autonomyLabel(q.Autonomy), CacheAssurance: cacheLabel(q.Cache == "standard"),
		ObservabilityAssurance: observabilityLabel(), ControlPlane: q.controlPlane(), RepoMCP: q.repoMCP(),
		NativeSandbox: nativeSandbox(a), NetworkPolicy: q.networkPolicy(), Endpoints: endpoints(rules), Credentials: names(credentials),
		InjectionPolicy: q.InjectionPolicy, Turns: q.Turns, Acknowledged: append([]string{}, acknowledged...), Command: q.recordedCommand(arguments),
		Directory: quote.UTF8(q.startDir()),
	}
	return p, nil
}

// carriers returns what carries the credentials out.
func (q *Facts) carriers() *credentials.Grant {
	if q.Grant == nil {
		return &credentials.Grant{}
	}
	return q.Grant
}

// arguments returns the command line of the agent.
func (q *Facts) arguments() ([]string, error) {
	a := q.Adapter.Adapter
	if q.Installation == nil {
		return nil, api.Usagef("", "agent %s: no program", a.Name)
	}
	if q.Allow.ArbitraryCommand || len(a.Program.Names) == 0 {
		return slices.Concat(q.Installation.Command, q.Arguments), nil
	}
	if err := a.Check(q.Arguments); err != nil {
		return nil, &api.Error{Kind: api.Usage, Code: api.CodeUsage, Message: err.Error(), Err: err, Hint: "`forkcell agent show " + a.Name + "` lists what is refused"}
	}
	user := q.Arguments
	if q.Earlier != nil {
		user = a.Resume.Continue(user)
	}
	return slices.Concat(q.Installation.Command, a.Command(q.Autonomy, user)), nil
}

func (q *Facts) controlPlane() string {
	switch {
	case q.Mode == Breakglass || !q.Masks:
		return "unmasked"
	case q.Allow.ControlPlaneVCS:
		return "readonly"
	}
	return "masked"
}

// networkPolicy names what decides about the network.
func (q *Facts) networkPolicy() string {
	if q.Unrestricted {
		return Unrestricted
	}
	return "allowlist"
}

// Unrestricted is the network policy of a session that reaches every host.
const Unrestricted = "unrestricted"

func (q *Facts) repoMCP() string {
	switch {
	case q.Mode == Breakglass || !q.Masks:
		return "unmasked"
	case q.Allow.RepoMCP:
		return "allowed"
	}
	return "denied"
}

// control returns which control files of the workspace the engine masks.
func (q *Facts) control() *api.ControlRequest {
	if q.Mode == Breakglass || !q.Masks {
		return nil
	}
	paths := q.Adapter.Adapter.Paths
	c := &api.ControlRequest{ShowGit: q.Allow.ControlPlaneVCS, ShowMCP: q.Allow.RepoMCP}
	for _, own := range paths.Own {
		c.State = append(c.State, "/"+own)
	}
	if !q.Allow.ControlPlaneVCS {
		c.Also = append(c.Also, paths.Control...)
	}
	if !q.Allow.RepoMCP {
		c.Also = append(c.Also, paths.MCP...)
	}
	return c
}

// maskedPaths returns the paths of the workspace that the agent itself would obey.
func (q *Facts) maskedPaths() []string {
	out := []string{}
	if q.Mode == Breakglass || !q.Masks {
		return out
	}
	if !q.Allow.ControlPlaneVCS {
		out = append(out, q.Adapter.Adapter.Paths.Control...)
	}
	if !q.Allow.RepoMCP {
		out = append(out, q.Adapter.Adapter.Paths.MCP...)
	}
	return out
}

func nativeSandbox(a *adapter.Adapter) string {
	if a.NativeSandbox.Why == "" {
		return a.NativeSandbox.State
	}
	return a.NativeSandbox.State + ": " + a.NativeSandbox.Why
}

func names(list []Credential) []string {
	out := []string{}
	for _, c := range list {
		out = append(out, c.String())
	}
	return out
}

// startDir returns where the agent starts; "" is the workspace.
func (q *Facts) startDir() string {
	if q.Directory == "." {
		return ""
	}
	return q.Directory
}

// recordedCommand returns a command line for the record: without the interpreter of a script,
// so that the program is found again, without secrets, and visible.
func (q *Facts) recordedCommand(command []string) []string {
	in := q.Installation
	out := slices.Concat([]string{in.Program}, command[len(in.Command):])
	for i, a := range redact.Args(out) {
		out[i] = quote.Line(a)
	}
	return out
}

// RestartCommand returns the command of a record for another start. If something in it was
// redacted or escaped, the operator must give it again.
func RestartCommand(command []string) ([]string, error) {
	for _, a := range command {
		if strings.Contains(a, redact.Mark) || strings.Contains(a, `\`) {
			return nil, api.Usagef("write it after --, as for agent", "the record has the command with characters escaped or secrets removed: %s", quote.Argv(command))
		}
	}
	return command, nil
}

// Policy returns the policy of the session.
func (p *Plan) Policy() *policy.Policy { return p.policy }

func limitsOf(l policy.Limits) api.SessionLimits {
	return api.SessionLimits{MemoryBytes: l.Memory, PIDs: l.PIDs, WallTimeSeconds: int64(l.WallTime / time.Second), DiskBytes: l.Disk}
}

// Reaches has the plan list the endpoints of a policy, which is what the session's policy
// and the ceiling of its caller allow together.
func (p *Plan) Reaches(bounded *policy.Policy) { p.Terms.Endpoints = endpoints(bounded) }

// Ceiling returns the ceiling of a session whose caller has none: what the policy of the
// cell allows, and what the agent itself needs. The operator lets the caller start the
// agent; the mode and the caller's own policy cannot add to that.
func (p *Plan) Ceiling(cell []byte) (*api.PolicyFile, error) {
	name := "the policies of the cell and of agent " + p.Terms.Agent
	out, err := policy.Parse(name, cell, policy.Options{})
	if err != nil {
		return nil, err
	}
	add(out, "agent-", p.own)
	sortPolicy(out)
	return &api.PolicyFile{Name: api.Text(name), Text: out.Canonical()}, nil
}

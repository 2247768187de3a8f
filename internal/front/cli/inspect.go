package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy/injection"
	agentsession "github.com/forkcell/forkcell/internal/session"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/session/credentials"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newInspect(s *frame) *cobra.Command {
	var o authFlags
	var workspace string
	var unrestricted bool
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Show what sessions of agents would get, without starting one",
		Long: `Show everything that would be decided about a session of each agent, or of one: its
program, what it reaches, its credentials, what is masked, its assurance. What stands
in the way of a session is shown in its place. Nothing is started, and no value of a
credential is shown.`,
		Example: `  forkcell inspect
  forkcell inspect --agent claude --mode development --json`,
		Args: positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			return runInspect(cmd, s, o, workspace, unrestricted)
		},
	}
	o.addPolicy(cmd.Flags())
	o.addMode(cmd.Flags())
	cmd.Flags().StringVar(&o.agent, "agent", "", "only this agent, by `NAME`")
	cmd.Flags().StringVar(&workspace, "workspace", "", "a session on the repository `DIR` instead of the working directory")
	cmd.Flags().BoolVar(&unrestricted, "unrestricted", false, "as for agent, with --mode breakglass")
	return cmd
}

// describeAgent describes a session of one agent.
type describeAgent struct {
	Agent api.AgentState `json:"agent"`
	// Plan is the plan of such a session; null if there can be none.
	Plan    *agentsession.Plan `json:"plan"`
	Problem string             `json:"problem,omitempty"`
	Next    string             `json:"next_step,omitempty"`
	// Credentials are all that the agent can use.
	Credentials []credentials.Decision `json:"credentials"`
}

type inspection struct {
	Version string           `json:"version"`
	Path    string           `json:"policy_path"`
	Exists  bool             `json:"policy_exists"`
	Sources []injection.File `json:"policy_sources,omitempty"`
	Mode    string           `json:"mode"`
	Agents  []describeAgent  `json:"agents"`
}

func runInspect(cmd *cobra.Command, s *frame, o authFlags, workspace string, unrestricted bool) error {
	store, agents, policy, err := o.resolve(cmd, s)
	if err != nil {
		return err
	}
	doc := inspection{Version: s.version, Path: store.Path, Exists: policy != nil, Mode: o.mode, Agents: []describeAgent{}}
	if policy != nil {
		doc.Sources = policy.Sources
	}
	for _, e := range agents {
		doc.Agents = append(doc.Agents, inspectAgent(s, o, e, policy, workspace, unrestricted))
	}
	return s.emit(doc, func(p *page) { printInspection(p, doc) })
}

// inspectAgent plans a session as agent NAME does.
func inspectAgent(s *frame, o authFlags, e *adapter.Entry, policy *injection.Policy, workspace string, unrestricted bool) describeAgent {
	options := agentOptions{acks: map[string]*string{}}
	like := &cobra.Command{Use: "agent"}
	options.addFlags(like)
	options.mode, options.workspace, options.injection, options.unrestricted = o.mode, workspace, o.policy, unrestricted
	if o.mode == agentsession.Breakglass {
		today := s.now().UTC().Format(time.DateOnly)
		options.acks[agentsession.AckBreakglass] = &today // nothing is started
	}
	r := &agentRun{session: s, cmd: like, opts: &options}
	err := r.prepare(e.Adapter.Name, nil)
	out := describeAgent{Agent: s.host().State(e), Plan: r.plan, Credentials: credentials.Decide(o.request(s, e.Adapter, policy, r.place.Root))}
	if err != nil {
		body := bodyOf(err)
		out.Plan, out.Problem, out.Next = nil, body.Message, body.Hint
	}
	return out
}

func printInspection(p *page, doc inspection) {
	if doc.Exists {
		p.printf("policy %s, mode %s\n", quote.Path(doc.Path), doc.Mode)
	} else {
		p.printf("no policy at %s, mode %s\n", quote.Path(doc.Path), doc.Mode)
	}
	for _, a := range doc.Agents {
		p.printf("\n%s\n", a.Agent.Name)
		if a.Plan != nil {
			printSessionPlan(p, &a.Plan.SessionPlan)
		} else {
			p.pairs("no session", quote.Line(a.Problem), "next step", quote.Line(a.Next))
		}
		rows := [][]string{}
		for _, d := range a.Credentials {
			if d.Readiness != credentials.Absent || len(doc.Agents) == 1 {
				rows = append(rows, []string{"  " + d.Credential, deliveryText(d), d.Readiness, quote.Line(d.Reason)})
			}
		}
		p.table(rows)
	}
}

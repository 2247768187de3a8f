package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/session/credentials"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newAuth(s *frame) *cobra.Command {
	return group("auth", "Manage the credentials of coding agents",
		newAuthInit(s), newAuthSet(s), newAuthUnset(s), newAuthStatus(s))
}

// authFlags are flags of several commands about credentials.
type authFlags struct {
	policy, agent, mode, credential string
}

func (o *authFlags) addPolicy(f *pflag.FlagSet) {
	f.StringVar(&o.policy, "injection-policy", "", "the injection policy `FILE` (default $XDG_CONFIG_HOME/forkcell/injection-policy.toml)")
}

func (o *authFlags) addMode(f *pflag.FlagSet) {
	f.StringVar(&o.mode, "mode", "strict", "the mode of the session: `strict|development|build|breakglass`")
}

// store returns the operator's policy and the adapters that it is read for.
func (o authFlags) store(s *frame) (injection.Store, []*adapter.Entry, error) {
	return s.host().Store(o.policy)
}

// load returns the policy, or nil if there is none at the default place.
func (o authFlags) load(s *frame) (*injection.Policy, error) { return s.host().Injection(o.policy, "") }

// request returns what decides about the credentials of an agent's session.
func (o authFlags) request(s *frame, a *adapter.Adapter, p *injection.Policy, workspace string) credentials.Request {
	return s.host().Credentials(a, o.mode, p, workspace)
}

// findAdapter returns the adapter of a name, among all.
func findAdapter(cmd *cobra.Command, list []*adapter.Entry, name string) (*adapter.Adapter, error) {
	var names []string
	for _, e := range list {
		if e.Adapter.Name == name {
			return e.Adapter, nil
		}
		names = append(names, e.Adapter.Name)
	}
	if name == "" {
		return nil, usageError("one of: "+strings.Join(names, ", "), "%s: --agent is needed", verb(cmd))
	}
	return nil, usageError("one of: "+strings.Join(names, ", "), "%s: unknown agent %s", verb(cmd), quote.Arg(name))
}

func newAuthInit(s *frame) *cobra.Command {
	var o authFlags
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make an empty injection policy",
		Long: `Make an empty injection policy, private to you, unless there is one. It keeps the
sources of credentials, never their values.`,
		Example: "  forkcell auth init",
		Args:    positional(),
		RunE: func(*cobra.Command, []string) error {
			s.started = true
			store, _, err := o.store(s)
			if err != nil {
				return err
			}
			made, err := store.Init()
			if err != nil {
				return err
			}
			doc := struct {
				Path string `json:"policy_path"`
				Made bool   `json:"created"`
			}{store.Path, made}
			return s.emit(doc, func(p *page) {
				verb := "found"
				if made {
					verb = "made"
				}
				p.printf("%s %s\n", verb, quote.Path(store.Path))
			})
		},
	}
	o.addPolicy(cmd.Flags())
	return cmd
}

func newAuthUnset(s *frame) *cobra.Command {
	var o authFlags
	cmd := &cobra.Command{
		Use:   "unset --credential KEY",
		Short: "Remove the source of a credential",
		Long: `Remove the source of a credential from the injection policy. With --agent, a key that
several agents use is kept for the others.`,
		Example: "  forkcell auth unset --credential claude_api_key",
		Args:    positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			store, _, err := o.store(s)
			if err != nil {
				return err
			}
			if err := o.checkKey(cmd, store.Names, o.agent); err != nil {
				return err
			}
			if _, err := o.load(s); err != nil {
				return err
			}
			removed, err := store.Unset(o.credential, o.agent)
			if err != nil {
				return err
			}
			doc := struct {
				Path       string `json:"policy_path"`
				Credential string `json:"credential"`
				Removed    bool   `json:"removed"`
			}{store.Path, o.credential, removed}
			return s.emit(doc, func(p *page) {
				if removed {
					p.printf("removed %s from %s\n", o.credential, quote.Path(store.Path))
				} else {
					p.printf("%s was not set in %s\n", o.credential, quote.Path(store.Path))
				}
			})
		},
	}
	o.addPolicy(cmd.Flags())
	cmd.Flags().StringVar(&o.credential, "credential", "", "the `KEY` of the credential")
	cmd.Flags().StringVar(&o.agent, "agent", "", "only for this agent, by `NAME`")
	return cmd
}

func (o authFlags) checkKey(cmd *cobra.Command, names injection.Vocabulary, name string) error {
	if o.credential == "" {
		return usageError("one of: "+strings.Join(names.KeyNames(), ", "), "%s: --credential is needed", verb(cmd))
	}
	return names.CheckKey(o.credential, name)
}

func newAuthStatus(s *frame) *cobra.Command {
	var o authFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which credentials agents would get",
		Long: `Show for each agent which credentials a session would get, how each gets in, and
whether its source can be read. No value is read.`,
		Example: `  forkcell auth status
  forkcell auth status --agent claude --mode build`,
		Args: positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			return runAuthStatus(cmd, s, o)
		},
	}
	o.addPolicy(cmd.Flags())
	o.addMode(cmd.Flags())
	cmd.Flags().StringVar(&o.agent, "agent", "", "only this agent, by `NAME`")
	return cmd
}

// agentStatus has the credentials that one agent would get.
type agentStatus struct {
	Agent       string                 `json:"agent"`
	Credentials []credentials.Decision `json:"credentials"`
	// SSH is what a session may do by SSH; null if nothing.
	SSH *sshStatus `json:"ssh"`
}

type authStatus struct {
	Path   string           `json:"policy_path"`
	Exists bool             `json:"policy_exists"`
	Files  []injection.File `json:"policy_sources,omitempty"`
	Mode   string           `json:"mode"`
	Agents []agentStatus    `json:"agents"`
}

// resolve checks the flags, and returns the agents that they name and the injection
// policy; nil if there is none.
func (o authFlags) resolve(cmd *cobra.Command, s *frame) (store injection.Store, agents []*adapter.Entry, p *injection.Policy, err error) {
	if err = oneOf(cmd, "mode", o.mode, injection.Modes()...); err != nil {
		return store, nil, nil, err
	}
	if store, agents, err = o.store(s); err != nil {
		return store, nil, nil, err
	}
	if o.agent != "" {
		if _, err = findAdapter(cmd, agents, o.agent); err != nil {
			return store, nil, nil, err
		}
		agents = slices.DeleteFunc(agents, func(e *adapter.Entry) bool { return e.Adapter.Name != o.agent })
	}
	p, err = o.load(s)
	return store, agents, p, err
}

func runAuthStatus(cmd *cobra.Command, s *frame, o authFlags) error {
	store, agents, policy, err := o.resolve(cmd, s)
	if err != nil {
		return err
	}
	doc := authStatus{Path: store.Path, Exists: policy != nil, Mode: o.mode, Agents: []agentStatus{}}
	if policy != nil {
		doc.Files = policy.Sources
	}
	for _, e := range agents {
		q := o.request(s, e.Adapter, policy, "")
		doc.Agents = append(doc.Agents, agentStatus{e.Adapter.Name, credentials.Decide(q), o.sshOf(q)})
	}
	return s.emit(doc, func(p *page) { printAuthStatus(p, doc, o.agent != "") })
}

// printAuthStatus prints the credentials that are set, or all.
func printAuthStatus(p *page, doc authStatus, all bool) {
	if doc.Exists {
		p.printf("policy %s, mode %s\n", quote.Path(doc.Path), doc.Mode)
	} else {
		p.printf("no policy at %s; forkcell auth set makes one\n", quote.Path(doc.Path))
	}
	rows := [][]string{{"AGENT", "CREDENTIAL", "USED", "STATE", "SOURCE"}}
	for _, a := range doc.Agents {
		for _, d := range a.Credentials {
			if all || d.Readiness != credentials.Absent {
				rows = append(rows, []string{a.Agent, d.Credential, deliveryText(d), d.Readiness, dash(d.Source)})
			}
		}
		if a.SSH != nil {
			rows = append(rows, []string{a.Agent, "ssh", sshWay, a.SSH.Readiness, a.SSH.source()})
		}
	}
	if len(rows) > 1 {
		p.table(rows)
	}
	if !all {
		p.printf("forkcell auth status --agent NAME lists all credentials that an agent can use\n")
	}
}

// deliveryText returns how a credential gets in, or no.
func deliveryText(d credentials.Decision) string {
	switch {
	case !d.Selected:
		return "no"
	case d.How == "":
		return "refused"
	}
	return d.How
}

func newWhy(s *frame) *cobra.Command {
	var o authFlags
	cmd := &cobra.Command{
		Use:   "why --credential KEY --agent NAME",
		Short: "Say why a session gets a credential or not",
		Long: `Say whether a session of an agent would get a credential, how it would get in, and
why. The session itself uses the same decision. No value is read.`,
		Example: "  forkcell why --credential claude_api_key --agent claude --mode build",
		Args:    positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			return runWhy(cmd, s, o)
		},
	}
	o.addPolicy(cmd.Flags())
	o.addMode(cmd.Flags())
	cmd.Flags().StringVar(&o.agent, "agent", "", "the agent's `NAME`")
	cmd.Flags().StringVar(&o.credential, "credential", "", "the `KEY` of the credential")
	return cmd
}

// reasons is the answer of why.
type reasons struct {
	Path  string `json:"policy_path"`
	Agent string `json:"agent"`
	Mode  string `json:"mode"`
	credentials.Decision
}

func runWhy(cmd *cobra.Command, s *frame, o authFlags) error {
	if err := oneOf(cmd, "mode", o.mode, injection.Modes()...); err != nil {
		return err
	}
	store, list, err := o.store(s)
	if err != nil {
		return err
	}
	if err := o.checkKey(cmd, store.Names, ""); err != nil {
		return err
	}
	a, err := findAdapter(cmd, list, o.agent)
	if err != nil {
		return err
	}
	policy, err := o.load(s)
	if err != nil {
		return err
	}
	doc := reasons{Agent: a.Name, Mode: o.mode, Decision: credentials.Why(o.request(s, a, policy, ""), o.credential)}
	if policy != nil {
		doc.Path = policy.Path
	}
	return s.emit(doc, func(p *page) {
		selected := "0"
		if doc.Selected {
			selected = "1"
		}
		p.pairs("policy_path", quote.Path(doc.Path), "credential", doc.Credential, "agent", doc.Agent, "mode", doc.Mode,
			"selected", selected, "selection_reason", doc.Reason, "how", doc.How, "credential_readiness", doc.Readiness,
			"credential_input_kind", doc.Input, "credential_providers", strings.Join(doc.Providers, ","), "credential_modes", strings.Join(doc.Modes, ","),
			"credential_resolver", doc.Resolver, "source", doc.Source, "endpoints", strings.Join(doc.Endpoints, ","),
			"problem", quote.Line(doc.Problem), "next_step", quote.Line(doc.Next))
	})
}

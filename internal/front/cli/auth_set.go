package cli

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/session/credentials"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/internal/text/redact"
)

// authSetFlags are the flags of auth set.
type authSetFlags struct {
	authFlags

	source, resolver, materialize string
	modes                         []string
	ackResolver, ackWriteBack     bool
}

func newAuthSet(s *frame) *cobra.Command {
	var o authSetFlags
	cmd := &cobra.Command{
		Use:   "set --agent NAME --credential KEY (--source SOURCE | --resolver NAME --ack-host-resolver)",
		Short: "Set the source of a credential of an agent",
		Long: `Set where the value of a credential comes from. The injection policy keeps the source,
never the value: it is read when a session starts.

A source is a path, env:NAME, or command: with a JSON array. A file must be private to
you. A resolver uses the agent's own login on this host; --ack-host-resolver
acknowledges that it is read, --ack-write-back that a renewed login is written back to
it. Without the latter a session cannot renew a login.

The cell gets a placeholder, and the value goes into requests to the agent's service
outside the cell. --materialize copy puts the value itself into the cell, and lowers
the assurance of the session.

An entry that other agents use too gets one agent more. It is not changed: with another
source, other modes or acknowledgements the command is refused.`,
		Example: `  forkcell auth set --agent claude --credential claude_api_key --source env:ANTHROPIC_API_KEY
  forkcell auth set --agent codex --credential codex_api_key --source 'command:["pass", "show", "openai"]'
  forkcell auth set --agent claude --credential claude_auth --resolver claude-home-credentials-file --ack-host-resolver`,
		Args: positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			return runAuthSet(cmd, s, o)
		},
	}
	f := cmd.Flags()
	o.addPolicy(f)
	f.StringVar(&o.agent, "agent", "", "the agent's `NAME`")
	f.StringVar(&o.credential, "credential", "", "the `KEY` of the credential")
	f.StringVar(&o.source, "source", "", "the value is in `PATH|env:NAME|command:JSON`")
	f.StringVar(&o.resolver, "resolver", "", "the value is the agent's login on this host: `NAME` of the resolver")
	f.BoolVar(&o.ackResolver, "ack-host-resolver", false, "acknowledge that sessions read the login of this host")
	f.BoolVar(&o.ackWriteBack, "ack-write-back", false, "acknowledge that a renewed login is written to the host's file")
	f.StringVar(&o.materialize, "materialize", "placeholder", "how the cell gets it: `placeholder|copy`")
	f.StringArrayVar(&o.modes, "mode", nil, "only in this `MODE` of sessions (repeatable; default: all)")
	return cmd
}

// entry returns the entry that the flags ask for.
func (o authSetFlags) entry(cmd *cobra.Command) (injection.Credential, error) {
	c := injection.Credential{Key: o.credential, Resolver: o.resolver, WriteBack: o.ackWriteBack, Copy: o.materialize == "copy"}
	c.Agents, c.Modes = []string{o.agent}, o.modes
	if err := oneOf(cmd, "materialize", o.materialize, "placeholder", "copy"); err != nil {
		return c, err
	}
	if credentials.OnlyCopied(o.credential) && !c.Copy {
		return c, usageError("add --materialize copy: the values are in the cell then, and the assurance of the session is lower",
			"%s: %s is a file, for which no placeholder can stand", verb(cmd), o.credential)
	}
	for _, m := range o.modes {
		if err := oneOf(cmd, "mode", m, injection.Modes()...); err != nil {
			return c, err
		}
	}
	switch {
	case (o.source == "") == (o.resolver == ""):
		return c, usageError("", "%s: give either --source or --resolver", verb(cmd))
	case o.source != "":
		if o.ackResolver || o.ackWriteBack {
			return c, usageError("", "%s: --ack-host-resolver and --ack-write-back belong to --resolver", verb(cmd))
		}
		var err error
		c.Source, err = absoluteSource(cmd, o.source)
		return c, err
	case injection.Resolvers()[o.resolver] != o.credential:
		return c, usageError("known are "+strings.Join(slices.Sorted(maps.Keys(injection.Resolvers())), ", "),
			"%s: %s is no resolver of %s", verb(cmd), quote.Arg(o.resolver), o.credential)
	case credentials.LoginFile(o.resolver) == "":
		return c, refusal(api.CodeUnsupported, "use claude-home-credentials-file", "%s: %s needs a keychain that this system does not have", verb(cmd), o.resolver)
	case !o.ackResolver:
		return c, usageError("add --ack-host-resolver", "%s: the login of this host is read only if you acknowledge it", verb(cmd))
	}
	return c, nil
}

// absoluteSource checks a source and makes its path absolute. A value that was given by
// mistake is not repeated.
func absoluteSource(cmd *cobra.Command, text string) (string, error) {
	if len(redact.Find([]byte(text))) > 0 {
		return "", usageError("put the value into a private file, and give its path", "%s: --source holds what looks like a secret", verb(cmd))
	}
	if strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "command:") {
		_, err := credential.ParseSource(text)
		if err != nil {
			return "", usageError("", "%s: --source: %s", verb(cmd), err)
		}
		return text, nil
	}
	return filepath.Abs(strings.TrimPrefix(text, "file:"))
}

func runAuthSet(cmd *cobra.Command, s *frame, o authSetFlags) error {
	store, list, err := o.store(s)
	if err != nil {
		return err
	}
	a, err := findAdapter(cmd, list, o.agent)
	if err != nil {
		return err
	}
	if err := o.checkKey(cmd, store.Names, o.agent); err != nil {
		return err
	}
	c, err := o.entry(cmd)
	if err != nil {
		return err
	}
	if err := store.Set(c); err != nil {
		return err
	}
	policy, err := store.Load(store.Path)
	if err != nil {
		return err
	}
	o.mode = "strict"
	if len(c.Modes) > 0 {
		o.mode = c.Modes[0]
	}
	doc := reasons{Path: store.Path, Agent: a.Name, Mode: o.mode, Decision: credentials.Why(o.request(s, a, policy, ""), c.Key)}
	if doc.Problem != "" {
		s.note(c.Key + " cannot be used yet: " + quote.Line(doc.Problem) + "; " + quote.Line(doc.Next))
	}
	return s.emit(doc, func(p *page) {
		p.printf("set %s for %s in %s", c.Key, a.Name, quote.Path(store.Path))
		if doc.Problem == "" {
			p.printf(": %s, as %s", doc.Source, deliveryText(doc.Decision))
		}
		p.printf("\n")
	})
}

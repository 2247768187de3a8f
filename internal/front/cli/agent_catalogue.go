package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forkcell/forkcell/internal/api"
	agentsession "github.com/forkcell/forkcell/internal/session"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newAgentList(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the agents: where each program is, its version, whether it is ready",
		Example: "  forkcell agent list",
		Args:    positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			list, err := s.agents(cmd.Context())
			if err != nil {
				return err
			}
			return s.emit(list, func(p *page) { printAgents(p, list) })
		},
	}
}

// agents returns the agents of this host, or of the daemon's.
func (s *frame) agents(ctx context.Context) (list []api.AgentState, err error) {
	if s.daemon.URL != "" {
		err = s.agentHost(ctx, func(ctx context.Context, _ Engine, host agentHost) (err error) {
			list, err = host.Agents(ctx)
			return err
		})
		return list, err
	}
	all, err := s.host().All()
	list = []api.AgentState{}
	for _, e := range all {
		list = append(list, s.host().State(e))
	}
	return list, err
}

func printAgents(p *page, list []api.AgentState) {
	rows := [][]string{{"AGENT", p.paint(plain, "READY"), "VERSION", "PROGRAM", "CREDENTIALS"}}
	for _, a := range list {
		ready := "yes"
		if !a.Ready {
			ready = a.Problem
		}
		version := a.Version
		if version != "" && a.Place != adapter.VersionTested {
			version += " (tested: " + a.Tested + ")"
		}
		rows = append(rows, []string{
			a.Name, p.paint(plain, shorten(quote.Line(ready), 40)), dash(quote.Line(version)), dash(quote.Line(a.Program)),
			dash(quote.Line(strings.Join(a.Credentials, ", "))),
		})
	}
	p.table(rows)
}

func newAgentShow(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Print the adapter of an agent: a document that agent add takes",
		Long: `Print the adapter of an agent: programs, arguments, endpoints, credentials, files and
paths, and the versions that were tested. The document can be changed and given to
agent add.`,
		Example:           "  forkcell agent show claude > claude.yaml",
		Args:              positional("NAME"),
		ValidArgsFunction: s.completeAgent,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			if s.daemon.URL != "" {
				return s.showAgentThere(cmd.Context(), args[0])
			}
			e, err := s.host().Find(args[0])
			if err != nil {
				return err
			}
			return s.emit(e.Adapter, func(p *page) { p.lines(string(e.Text)) })
		},
	}
}

// showAgentThere prints the adapter of an agent of a daemon.
func (s *frame) showAgentThere(ctx context.Context, name string) error {
	return s.agentHost(ctx, func(ctx context.Context, _ Engine, host agentHost) error {
		doc, err := host.Agent(ctx, name)
		if err != nil {
			return err
		}
		if doc.Document == "" {
			return refusal(api.CodeForbidden, "use a token with the scope admin", "the adapter of agent %s is the operator's own", quote.Line(name))
		}
		a, err := adapter.Parse("the adapter of the daemon", []byte(doc.Document))
		if err != nil {
			return err
		}
		return s.emit(a, func(p *page) {
			for line := range strings.Lines(doc.Document) {
				p.printf("%s\n", quote.Line(strings.TrimSuffix(line, "\n")))
			}
		})
	})
}

func newAgentAdd(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "add FILE",
		Short: "Keep an adapter of your own, in place of one of the same name",
		Long: `Keep an adapter of your own in the agents directory of your configuration, in place
of one of the same name. - is stdin. The file is checked first: an unknown key or a
wrong value is an error (exit 2), and nothing is kept.`,
		Example: `  forkcell agent show claude > claude.yaml
  forkcell agent add claude.yaml`,
		Args: positional("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			text, err := s.readArgument(args[0])
			if err != nil {
				return usageError("", "%s: %s: %v", verb(cmd), quote.Path(args[0]), err)
			}
			e, err := s.host().Catalogue().Add(args[0], text)
			if err != nil {
				return usageError("`forkcell agent show claude` prints one to start from", "%s: %v", verb(cmd), err)
			}
			return s.emit(s.host().State(e), func(p *page) { p.printf("agent %s kept in %s\n", e.Adapter.Name, quote.Path(e.File)) })
		},
	}
}

// readArgument reads a file that the command line names; - is stdin.
func (s *frame) readArgument(name string) ([]byte, error) {
	if name != "-" {
		return readBounded(name, adapter.MaxDocument)
	}
	return io.ReadAll(io.LimitReader(s.streams.In, adapter.MaxDocument+1))
}

func newAgentCheck(s *frame) *cobra.Command {
	var o optionFlags
	cmd := &cobra.Command{
		Use:   "check NAME",
		Short: "Start an agent in an empty cell, far enough to see it print its version",
		Long: `Start an agent in an empty cell, far enough to see it print its version. The cell is
removed afterwards. It has no network unless --policy, --resolve or --ca is given: then
it reaches what the adapter and the policy allow. Through a daemon it takes no flags. The
exit code is 0 if the program answered, and 4 if it is not installed or does not work in
a cell.`,
		Example: `  forkcell agent check claude
  forkcell agent check mine --ro /opt/mine --memory 1GiB`,
		Args:              positional("NAME"),
		ValidArgsFunction: s.completeAgent,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			if s.daemon.URL != "" {
				return s.checkThere(cmd, args[0])
			}
			options, err := o.resolve(cmd, s)
			if err != nil {
				return err
			}
			return s.engine(cmd.Context(), Create, func(ctx context.Context, e Engine) error {
				st, err := s.planningHost().Check(ctx, e, agentsession.CheckRequest{Agent: args[0], Options: options})
				return s.printCheck(st, err)
			})
		},
	}
	f := cmd.Flags()
	o.addFlags(f, optionTexts{timeout: "end the program after this time (default 30s)", workdir: "start in `PATH`, absolute or relative to the empty workspace"})
	f.Lookup("policy").Usage = "also allow what the policy `FILE` allows; a preset's name works too"
	return cmd
}

// checkThere has a daemon check an agent of its host.
func (s *frame) checkThere(cmd *cobra.Command, name string) error {
	var given []string
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			given = append(given, "--"+f.Name)
		}
	})
	if len(given) > 0 {
		return usageError("leave it out, or check the agent on the daemon's host", "%s: %s has no effect through a daemon", verb(cmd), given[0])
	}
	return s.agentHost(cmd.Context(), func(ctx context.Context, _ Engine, host agentHost) error {
		st, err := host.CheckAgent(ctx, name)
		return s.printCheck(st, err)
	})
}

// printCheck prints how an agent answered in a cell.
func (s *frame) printCheck(st *api.AgentState, err error) error {
	if err != nil {
		return err
	}
	return s.emit(st, func(p *page) {
		p.printf("agent %s answers in a cell: %s\n", quote.Line(st.Name), quote.Line(st.Answer))
		p.pairs("program", quote.Path(st.Program), "version", quote.Line(st.Version+" ("+st.Place+")"), "shown", quote.Line(strings.Join(st.Shown, ", ")),
			"reaches", quote.Line(strings.Join(st.Reaches, ", ")), "credentials", quote.Line(strings.Join(st.Credentials, ", ")), "problem", quote.Line(st.Problem))
	})
}

package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/agent"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/quote"
)

func newAgentList(s *session) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the agents: where each program is, its version, whether it is ready",
		Example: "  forkcell agent list",
		Args:    positional(),
		RunE: func(*cobra.Command, []string) error {
			s.started = true
			all, err := operatorHost().All()
			if err != nil {
				return err
			}
			list := []api.AgentState{}
			for _, e := range all {
				list = append(list, stateOf(e))
			}
			return s.emit(list, func(p *page) { printAgents(p, list) })
		},
	}
}

// stateOf looks for an agent's program and credentials on this host.
func stateOf(e *agent.Entry) api.AgentState { return operatorHost().State(e) }

func printAgents(p *page, list []api.AgentState) {
	rows := [][]string{{"AGENT", p.paint(plain, "READY"), "VERSION", "PROGRAM", "CREDENTIALS"}}
	for _, a := range list {
		ready := "yes"
		if !a.Ready {
			ready = a.Problem
		}
		version := a.Version
		if version != "" && a.Place != agent.VersionTested {
			version += " (tested: " + a.Tested + ")"
		}
		rows = append(rows, []string{
			a.Name, p.paint(plain, cut(quote.Line(ready), 40)), dash(quote.Line(version)), dash(quote.Line(a.Program)),
			dash(quote.Line(strings.Join(a.Credentials, ", "))),
		})
	}
	p.table(rows)
}

func newAgentShow(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Print the adapter of an agent: a document that agent add takes",
		Long: `Print the adapter of an agent: programs, arguments, endpoints, credentials, files and
paths, and the versions that were tested. The document can be changed and given to
agent add.`,
		Example:           "  forkcell agent show claude > claude.yaml",
		Args:              positional("NAME"),
		ValidArgsFunction: s.completeAgent,
		RunE: func(_ *cobra.Command, args []string) error {
			s.started = true
			e, err := operatorHost().Find(args[0])
			if err != nil {
				return err
			}
			return s.emit(e.Adapter, func(p *page) { p.printf("%s", e.Text) })
		},
	}
}

func newAgentAdd(s *session) *cobra.Command {
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
			e, err := operatorHost().Catalogue().Add(args[0], text)
			if err != nil {
				return usageError("`forkcell agent show claude` prints one to start from", "%s: %v", verb(cmd), err)
			}
			return s.emit(stateOf(e), func(p *page) { p.printf("agent %s kept in %s\n", e.Adapter.Name, quote.Path(e.File)) })
		},
	}
}

// readArgument reads a file that the command line names; - is stdin.
func (s *session) readArgument(name string) ([]byte, error) {
	if name != "-" {
		return readBounded(name, agent.MaxDocument)
	}
	return io.ReadAll(io.LimitReader(s.streams.In, agent.MaxDocument+1))
}

// checkLimit is the time that a program has to print its version.
const checkLimit = 30 * time.Second

func newAgentCheck(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "check NAME",
		Short: "Start an agent in an empty cell, far enough to see it print its version",
		Long: `Start an agent in an empty cell, far enough to see it print its version. The cell has
no network and is removed afterwards. The exit code is 0 if the program answered, and
4 if it is not installed or does not work in a cell.`,
		Example:           "  forkcell agent check claude",
		Args:              positional("NAME"),
		ValidArgsFunction: s.completeAgent,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			e, err := operatorHost().Find(args[0])
			if err != nil {
				return err
			}
			return s.engine(cmd.Context(), Create, func(ctx context.Context, engine Engine) error { return checkAgent(ctx, s, engine, e) })
		},
	}
}

func checkAgent(ctx context.Context, s *session, engine Engine, e *agent.Entry) error {
	st, a := stateOf(e), e.Adapter
	if len(a.Program.Names) == 0 {
		return usageError("`forkcell agent "+a.Name+" -- PROGRAM` runs one", "agent %s has no program to check", a.Name)
	}
	in, err := a.Find(os.Getenv("PATH"))
	if err != nil {
		return &api.Error{Kind: api.Refused, Code: api.CodeAgent, Message: "agent " + err.Error(), Hint: "`npm install -g " + a.Program.Package + "` installs it", Err: err}
	}
	st.Answer, err = versionAnswer(ctx, engine, a, in)
	if err != nil {
		return err
	}
	if st.Version = agent.ParseVersion(st.Answer); st.Version == "" {
		return refusal(api.CodeAgent, "", "agent %s: it did not print a version in a cell: %s", a.Name, quote.Line(cut(st.Answer, 200)))
	}
	st.Place = a.Tested.Place(st.Version)
	return s.emit(st, func(p *page) {
		p.printf("agent %s answers in a cell: %s\n", a.Name, quote.Line(st.Answer))
		p.pairs("program", quote.Path(st.Program), "version", st.Version+" ("+st.Place+")", "shown", quote.Line(strings.Join(in.Show, ", ")),
			"reaches", quote.Line(strings.Join(st.Reaches, ", ")), "credentials", quote.Line(strings.Join(st.Credentials, ", ")), "problem", st.Problem)
	})
}

// versionAnswer runs the program with the arguments for its version, in a cell that is
// removed again.
func versionAnswer(ctx context.Context, e Engine, a *agent.Adapter, in *agent.Installation) (string, error) {
	made, err := e.Init(ctx, api.InitRequest{Name: "agent-check-" + a.Name + "-" + strings.ToLower(time.Now().UTC().Format("150405.000000000"))[7:], Empty: true})
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	options := api.RunOptions{ReadOnly: in.Show, Timeout: checkLimit, Offline: true}
	for k, v := range a.Environment {
		options.Env = append(options.Env, k+"="+v)
	}
	res, err := e.Run(ctx, api.RunRequest{Cell: made.Cell, Args: append(in.Command, a.Program.VersionArguments...), RunOptions: options}, cell.Stdio{Out: &out, Err: &out})
	removeErr := e.RemoveAll(context.WithoutCancel(ctx), []string{made.Cell}, true)
	text := strings.TrimSpace(out.String())
	if err == nil && !res.OK() {
		err = refusal(api.CodeAgent, "", "agent %s: it ended with exit code %d in a cell: %s", a.Name, res.ExitCode, quote.Line(cut(text, 200)))
	}
	return text, errors.Join(err, removeErr)
}

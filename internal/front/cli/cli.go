package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/home"
	agentsession "github.com/forkcell/forkcell/internal/session"
	"github.com/forkcell/forkcell/internal/text/document"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Streams are the process's standard streams.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// The groups of the help text.
const (
	groupTransaction = "transaction"
	groupAgents      = "agents"
	groupLive        = "live"
	groupEvidence    = "evidence"
	groupCells       = "cells"
	groupSetup       = "setup"
)

// Main runs one command line, given without the program's name, and returns
// the exit code of the process.
func Main(ctx context.Context, args []string, streams Streams, open OpenFunc, programs Programs, version string) int {
	s := newSession(open, streams, version)
	s.programs = programs
	line, backends, err := rewriteOld(args)
	s.args = line
	if err != nil {
		return s.finish(err)
	}
	root := newRoot(s, line)
	if backends != nil {
		s.requireBackends(root, backends)
	}
	root.SetArgs(line)
	return s.finish(root.ExecuteContext(ctx))
}

// New builds the whole command tree.
func New(open OpenFunc, streams Streams, version string) *cobra.Command {
	return newRoot(newSession(open, streams, version), nil)
}

// newRoot builds the commands that a command line may need; all for a nil one.
func newRoot(s *frame, args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "forkcell [--home DIR | --url URL [--token-file FILE]] [--json] [--quiet] [--no-color] COMMAND",
		Short: "Turn a risky command into a transaction",
		Long: `Forkcell turns a risky command into a transaction:
checkpoint, governed run, signed receipt, then accept, restore or fork.`,
		Example: `  forkcell init demo --from ./project
  forkcell run --restore-on-fail demo -- make test
  forkcell diff demo
  forkcell accept demo --apply`,
		DisableFlagsInUseLine: true,

		Version:           s.version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return s.connect(cmd) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			cmd.SetOut(s.streams.Err)
			_ = cmd.Help()
			return usageError("forkcell --help lists the commands", "no command given")
		},
	}
	root.SetOut(s.out)
	root.SetErr(s.streams.Err)
	root.SetIn(s.streams.In)
	root.SetVersionTemplate("forkcell {{.Version}}\n")
	root.SetFlagErrorFunc(s.flagError)

	flags := root.PersistentFlags()
	flags.StringVar(&s.home, "home", "", "state directory `DIR` (default $FORKCELL_HOME, else $XDG_DATA_HOME/forkcell)")
	flags.StringVar(&s.daemon.URL, "url", "", "talk to the daemon at `URL`: unix:PATH, http://HOST:PORT or https://HOST:PORT (default $FORKCELL_URL)")
	flags.StringVar(&s.daemon.TokenFile, "token-file", "", "the token for the daemon, in this `FILE` (default $FORKCELL_TOKEN_FILE)")
	flags.BoolVar(&s.json, "json", false, "print one JSON document")
	flags.BoolVar(&s.quiet, "quiet", false, "no progress and no notes on stderr")
	flags.BoolVar(&s.noColor, "no-color", false, "no colours on a terminal (also $NO_COLOR)")

	root.AddGroup(
		&cobra.Group{ID: groupTransaction, Title: "Transaction:"},
		&cobra.Group{ID: groupAgents, Title: "Coding agents:"},
		&cobra.Group{ID: groupLive, Title: "Live cells:"},
		&cobra.Group{ID: groupEvidence, Title: "Evidence:"},
		&cobra.Group{ID: groupCells, Title: "Cells:"},
		&cobra.Group{ID: groupSetup, Title: "Set-up:"},
	)
	for _, e := range neededCommands(entries(), args) {
		c := e.make(s)
		completePolicy(c)
		c.GroupID = e.group
		root.AddCommand(c)
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "__complete") {
		s.addCompletions(root)
	}
	root.SetHelpFunc(printHelp)
	root.SetHelpCommand(newHelp(s, root))
	root.SetHelpCommandGroupID(groupSetup)
	return root
}

// frame holds what all commands of one process share: the global flags, the
// streams and the way to the engine.
type frame struct {
	open    OpenFunc
	streams Streams
	version string
	args    []string
	// programs are the parts that a lean build does not have.
	programs Programs
	now      func() time.Time

	home    string
	opened  Engine // during a command that needs it
	daemon  api.DaemonOptions
	json    bool
	quiet   bool
	noColor bool

	passing *forwarder // passes signals on to the last run

	implied bool   // the cell is that of the working directory
	below   string // path of the working directory in the cell's source

	// host returns the operator's host; its environment is read once.
	host func() agentsession.Host
	// gitUser returns the caller's identity for git; it is read once.
	gitUser func() caller.GitUser
	// progressTo is called with the progress of the present verb.
	progressTo func(api.Progress)

	out     *stdout
	started bool // a command's own code was reached: errors before that are wrong usage
	isRun   bool // failures of forkcell itself exit 125
	code    int  // exit code of a command that ended without an error of forkcell's
}

func newSession(open OpenFunc, streams Streams, version string) *frame {
	git := sync.OnceValue(func() caller.GitUser { return caller.GitUser(readGitUser(context.Background())) })
	return &frame{open: open, streams: streams, version: version, now: time.Now, host: sync.OnceValue(readHost), gitUser: git, out: newStdout(streams.Out)}
}

// finish prints the error, if there is one, and returns the exit code.
func (s *frame) finish(err error) int {
	if err != nil && !s.started {
		err = cobraError(err)
	}
	flushErr := s.out.Flush()
	if err == nil {
		err = flushErr
	}
	if s.out.isGone() && brokenPipe(err) {
		err = nil
	}
	if err == nil {
		return s.code
	}
	code := exitOf(err, s.isRun)
	if s.code != exitDone {
		code = s.code
	}
	printError(s.streams.Err, err, s.json || (!s.started && asksJSON(s.args)))
	return code
}

// action is the body of a command that needs the engine.
type action func(ctx context.Context, e Engine, args []string) error

// with makes an action the body of a command.
func (s *frame) with(mode Mode, fn action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s.started = true
		return s.engine(cmd.Context(), mode, func(ctx context.Context, e Engine) error { return fn(ctx, e, args) })
	}
}

// engine opens the engine for one piece of work that the first Ctrl-C cancels.
func (s *frame) engine(ctx context.Context, mode Mode, fn func(context.Context, Engine) error) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	err := s.rawEngine(mode, func(e Engine) error { return fn(ctx, e) })
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	stopped := errInterrupted
	if by, ok := errors.AsType[interruption](context.Cause(ctx)); ok {
		stopped = by
	}
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeInterrupted {
		said := *e
		said.Err = stopped
		return &said
	}
	return stopped
}

func (s *frame) rawEngine(mode Mode, fn func(Engine) error) (err error) {
	e, release, err := s.openEngine(mode)
	if err != nil {
		return err
	}
	s.opened = e
	defer func() {
		s.opened = nil
		if cerr := release(); err == nil && cerr != nil {
			err = &api.Error{Kind: api.Failed, Code: api.CodeClose, Message: "close the home: " + cerr.Error(), Err: cerr}
		}
	}()
	return home.Explain(fn(e))
}

// emit prints a result: as JSON, or as text by the given function.
func (s *frame) emit(doc any, text func(p *page)) error {
	if s.json {
		return document.Write(s.out, doc)
	}
	p := newPage(s.out, s.colours(s.streams.Out))
	text(p)
	return p.err
}

// note writes a line for people to stderr, unless it is empty or --quiet is set.
func (s *frame) note(line string) {
	if !s.quiet && line != "" {
		_, _ = io.WriteString(s.streams.Err, "forkcell: "+quote.Line(line)+"\n")
	}
}

// printText writes text for people to stderr, unless --quiet is set.
func (s *frame) printText(text func(p *page)) {
	if !s.quiet {
		text(newPage(s.streams.Err, s.colours(s.streams.Err)))
	}
}

// asksJSON finds --json in a command line that could not be parsed.
func asksJSON(args []string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		if a == "--json" || strings.EqualFold(a, "--json=true") {
			return true
		}
	}
	return false
}

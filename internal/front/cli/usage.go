package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/docs"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// flagError returns the error for a wrong flag. For a run without "--" the error is
// about that: the flags of its command were taken for forkcell's.
func (s *frame) flagError(cmd *cobra.Command, err error) error {
	if cmd.Annotations[annotationRun] != "" && !slices.Contains(s.args, "--") {
		return usageError(runHint(cmd, s.args), "%s: %s", verb(cmd), oneLine(err))
	}
	if !cmd.HasParent() {
		return usageError("see "+cmd.CommandPath()+" --help", "%s", oneLine(err))
	}
	return usageError("see "+cmd.CommandPath()+" --help", "%s: %s", verb(cmd), oneLine(err))
}

// otherTool returns what comes closest to a word of other tools.
func otherTool(word string) string {
	switch word {
	case "clone":
		return "fork"
	case "commit":
		return "accept or checkpoint"
	case "create", "new":
		return "init"
	case "delete", "destroy", "remove":
		return "rm"
	case "discard":
		return "restore or reject"
	case "history":
		return "log"
	case "kill":
		return "stop"
	case "list":
		return "ls"
	case "merge":
		return "apply"
	case "reset", "revert", "rollback", "undo":
		return "restore or apply --undo"
	case "save", "snapshot":
		return "checkpoint"
	case "show":
		return "status or receipt show"
	}
	return ""
}

// firstQuoted returns the first word of a text that is in double quotes.
func firstQuoted(text string) string {
	_, rest, _ := strings.Cut(text, `"`)
	word, _, _ := strings.Cut(rest, `"`)
	return word
}

// cobraError turns an error that cobra found in a command line into a usage error.
func cobraError(err error) error {
	msg := err.Error()
	if !strings.HasPrefix(msg, "unknown command ") {
		return err
	}
	first, rest, _ := strings.Cut(msg, "\n")
	hint := "forkcell --help lists the commands"
	if same := otherTool(firstQuoted(first)); same != "" {
		hint = "did you mean " + same + "?"
	} else if _, list, ok := strings.Cut(rest, "Did you mean this?"); ok {
		hint = "did you mean " + strings.Join(strings.Fields(list), " or ") + "?"
	}
	return usageError(hint, "%s", first)
}

// verb returns the command's path without the program's name.
func verb(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

func oneLine(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}

// positional checks the number of arguments against the names in the usage
// line; optional ones are in brackets.
func positional(names ...string) cobra.PositionalArgs {
	need := 0
	for _, n := range names {
		if !strings.HasPrefix(n, "[") {
			need++
		}
	}
	return func(cmd *cobra.Command, args []string) error {
		hint := "usage: " + usageLine(cmd)
		if len(args) < need {
			return usageError(hint, "%s: missing argument %s", verb(cmd), names[len(args)])
		}
		if len(args) > len(names) {
			return usageError(hint, "%s: unexpected argument %s", verb(cmd), quote.Arg(args[len(names)]))
		}
		for i, a := range args {
			if a == "" {
				return usageError(hint, "%s: empty argument %s", verb(cmd), strings.Trim(names[i], "[]"))
			}
		}
		return nil
	}
}

// oneOrMore requires one or more arguments of a kind.
func oneOrMore(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return positional(slices.Repeat([]string{name}, max(1, len(args)))...)(cmd, args)
	}
}

func usageLine(cmd *cobra.Command) string {
	return strings.TrimSuffix(cmd.UseLine(), " [flags]")
}

// argument returns the n-th positional argument, or "".
func argument(args []string, n int) string {
	if n < len(args) {
		return args[n]
	}
	return ""
}

// group makes a command that only has subcommands.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: groupArgs}
	cmd.RunE = func(*cobra.Command, []string) error { return nil }
	cmd.AddCommand(subs...)
	return cmd
}

func groupArgs(cmd *cobra.Command, args []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	hint := "one of: " + strings.Join(names, ", ")
	if len(args) == 0 {
		return usageError(hint, "%s: missing subcommand", verb(cmd))
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usageError(hint, "%s: unknown subcommand %s", verb(cmd), quote.Arg(args[0]))
}

// oneOf checks a flag's value against the allowed words.
func oneOf(cmd *cobra.Command, flag, value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	return usageError("one of: "+strings.Join(words, ", "), "%s: bad value %s for --%s", verb(cmd), quote.Arg(value), flag)
}

// exclusive refuses two flags that contradict each other.
func exclusive(cmd *cobra.Command, flags ...string) error {
	var given []string
	for _, f := range flags {
		if cmd.Flags().Changed(f) {
			given = append(given, "--"+f)
		}
	}
	if len(given) > 1 {
		return usageError("give one of them", "%s: %s exclude each other", verb(cmd), strings.Join(given, " and "))
	}
	return nil
}

// newHelp replaces cobra's own help command, which exits 0 for a topic that
// does not exist.
func newHelp(s *frame, root *cobra.Command) *cobra.Command {
	var long strings.Builder
	long.WriteString("Show the help of a command, or a page of the reference. The pages are:\n")
	for _, t := range docs.Topics() {
		fmt.Fprintf(&long, "\n  %-17s %s", t.Name, t.About)
	}
	return &cobra.Command{
		Use:   "help [COMMAND... | TOPIC]",
		Short: "Show the help of a command, or a page of the reference",
		Long:  long.String(),
		Example: `  forkcell help run
  forkcell help policy-file`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeHelp,
		RunE: func(_ *cobra.Command, args []string) error {
			if at := slices.IndexFunc(docs.Topics(), func(t docs.Topic) bool { return len(args) == 1 && t.Name == args[0] }); at >= 0 {
				return s.pageOutput(func(w io.Writer) error {
					_, err := io.WriteString(w, docs.Topics()[at].Text())
					return err
				})
			}
			target, rest, err := root.Find(args)
			if err != nil {
				return cobraError(err)
			}
			if len(rest) > 0 {
				return groupArgs(target, rest)
			}
			target.InitDefaultHelpFlag()
			return target.Help()
		},
	}
}

// completeHelp completes a command of the program, or a page.
func completeHelp(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if at, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
		for _, c := range at.Commands() {
			if c.IsAvailableCommand() {
				names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
			}
		}
	}
	if len(args) == 0 {
		for _, t := range docs.Topics() {
			names = append(names, cobra.CompletionWithDesc(t.Name, t.About))
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, begin) }), cobra.ShellCompDirectiveNoFileComp
}

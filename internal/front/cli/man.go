package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// newMan makes the hidden command that writes the manual pages: make install
// calls it. They come from the same texts as the help and the reference.
func newMan(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages to a directory",
		Example: "  forkcell man /usr/local/share/man/man1",
		Hidden:  true,
		Args:    positional("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			dir, err := fsx.OpenRoot(args[0])
			if err != nil {
				return usageError("", "%s: %v", verb(cmd), err)
			}
			defer dir.Close()
			return manPages(newRoot(s, nil), func(name, text string) error {
				return fsx.WriteFile(dir, name, []byte(text), 0o644)
			})
		},
	}
}

// manPages makes a page for every command that people see.
func manPages(cmd *cobra.Command, write func(name, text string) error) error {
	if cmd.HasParent() && !cmd.IsAvailableCommand() {
		return nil
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	if err := write(name+".1", manPage(cmd, name)); err != nil {
		return err
	}
	for _, sub := range cmd.Commands() {
		if err := manPages(sub, write); err != nil {
			return err
		}
	}
	return nil
}

func manPage(cmd *cobra.Command, name string) string {
	var b strings.Builder
	heading := func(text string) { b.WriteString(".SH " + text + "\n") }
	b.WriteString(`.TH "` + strings.ToUpper(name) + `" 1 "" "forkcell" "Forkcell manual"` + "\n")
	heading("NAME")
	b.WriteString(roff(name) + ` \- ` + roff(cmd.Short) + "\n")
	heading("SYNOPSIS")
	b.WriteString(".B " + roff(usageLine(cmd)) + "\n")
	heading("DESCRIPTION")
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	b.WriteString(strings.ReplaceAll(roff(long), "\n\n", "\n.PP\n") + "\n")
	manFlags(&b, "OPTIONS", cmd.NonInheritedFlags())
	manFlags(&b, "GLOBAL OPTIONS", cmd.InheritedFlags())
	if cmd.Example != "" {
		heading("EXAMPLES")
		b.WriteString(".nf\n" + roff(cmd.Example) + "\n.fi\n")
	}
	manRelated(&b, cmd)
	return b.String()
}

func manFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	b.WriteString(".SH " + title + "\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		term := "--" + f.Name
		if f.Shorthand != "" {
			term = "-" + f.Shorthand + ", " + term
		}
		if value != "" {
			term += " " + value
		}
		b.WriteString(".TP\n.B " + roff(term) + "\n" + roff(usage) + "\n")
	})
}

// manRelated names the pages above and below.
func manRelated(b *strings.Builder, cmd *cobra.Command) {
	var pages []string
	page := func(c *cobra.Command) string {
		return `\fB` + roff(strings.ReplaceAll(c.CommandPath(), " ", "-")) + `\fR(1)`
	}
	if cmd.HasParent() {
		pages = append(pages, page(cmd.Parent()))
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			pages = append(pages, page(sub))
		}
	}
	if len(pages) > 0 {
		b.WriteString(".SH SEE ALSO\n" + strings.Join(pages, ", ") + "\n")
	}
}

// roff escapes the characters that are special to the formatter.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpWidth is the number of columns of a help text.
const helpWidth = 100

// printHelp prints the help of a command. Long descriptions of flags go on in the next
// line.
func printHelp(c *cobra.Command, _ []string) {
	text := strings.TrimSpace(cmp.Or(c.Long, c.Short))
	fmt.Fprintf(c.OutOrStdout(), "%s\n\n%s", text, wrapFlags(c.UsageString()))
}

// wrapFlags breaks the lines of a help text that describe flags.
func wrapFlags(text string) string {
	flag := regexp.MustCompile(`^ +-.*?\S {3,}`)
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(wrap(line, utf8.RuneCountInString(flag.FindString(line))))
	}
	return b.String()
}

// wrap breaks a line between words, and indents what follows. Without an indent it
// leaves the line as it is.
func wrap(line string, indent int) string {
	if indent == 0 || utf8.RuneCountInString(strings.TrimRight(line, "\n")) <= helpWidth {
		return line
	}
	var b strings.Builder
	b.WriteString(line[:indent])
	at := indent
	for i, word := range strings.Fields(line[indent:]) {
		size := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+size > helpWidth:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += size
	}
	return b.String() + "\n"
}

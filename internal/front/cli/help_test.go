package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// TestHelpIsReadable: the help of every command but for commands to copy fits into a
// terminal, and nothing of the descriptions of flags is lost.
func TestHelpIsReadable(t *testing.T) {
	t.Parallel()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		var out bytes.Buffer
		c.SetOut(&out)
		c.InitDefaultHelpFlag()
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, "  forkcell ") {
				continue // a command is copied, in one line
			}
			if n := utf8.RuneCountInString(line) - 1; n > helpWidth {
				t.Errorf("%s --help has a line of %d columns: %s", c.CommandPath(), n, line)
			}
		}
		if got, want := strings.Fields(wrapFlags(c.UsageString())), strings.Fields(c.UsageString()); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s --help lost words:\n%s", c.CommandPath(), out.String())
		}
	}
	walk(New(nil, Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, "v"))
}

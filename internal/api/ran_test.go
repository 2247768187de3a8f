package api_test

import (
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// TestRanText: what ran is named for a command, a session and a live cell, and is one
// line of visible characters.
func TestRanText(t *testing.T) {
	t.Parallel()
	terms := &api.SessionTerms{Agent: "claude\x1b[2J", AgentVersion: "1.2"}
	for name, c := range map[string]struct {
		info api.RunInfo
		want string
	}{
		"command": {api.RunInfo{Command: []string{"make", "a b"}}, "make 'a b'"},
		"live":    {api.RunInfo{Command: []string{"start"}}, "start"},
		"one": {
			api.RunInfo{Command: []string{"start"}, Executed: &api.Executed{Count: 1, Commands: []string{"a\x1b]0;t\a\u202eb"}}},
			`start, 1 command: a\x1b]0;t\x07\u202eb`,
		},
		"many": {
			api.RunInfo{Command: []string{"start"}, Executed: &api.Executed{Count: 70, Commands: []string{"make", "ls"}}},
			"start, 70 commands: make; ls; ...",
		},
		"session": {
			api.RunInfo{Command: []string{"claude", "-p"}, Session: terms, Executed: &api.Executed{Count: 2, Commands: []string{"sh -s", "node claude -p"}}},
			`agent claude\x1b[2J 1.2: claude -p`,
		},
	} {
		got := c.info.Ran().Text(quote.Argv, quote.Line)
		if !quote.Visible(got) {
			t.Errorf("%s: %q is not visible", name, got)
		}
		if got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
}

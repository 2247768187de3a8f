package web

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// TestRunsNameWhatRan: a list of runs names the agent of a session and the commands of a
// live cell, and shows no escape.
func TestRunsNameWhatRan(t *testing.T) {
	t.Parallel()
	runs := []api.RunInfo{
		{RunID: "run_1", Command: []string{"claude", "-p"}, Session: &api.SessionTerms{Agent: "claude", AgentVersion: "1.2"}, StartedAt: time.Now()},
		{RunID: "run_2", Command: []string{"start"}, Executed: &api.Executed{Count: 3, Commands: []string{"make test", "\x1b[2J\u202e"}}, StartedAt: time.Now()},
	}
	var page bytes.Buffer
	if err := pages()["cells"].ExecuteTemplate(&page, "runs", runs); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"agent claude 1.2: claude -p", "start, 3 commands: make test; "} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is not in %s", want, page.String())
		}
	}
	if strings.ContainsAny(page.String(), "\x1b\u202e") {
		t.Errorf("an escape is in %s", page.String())
	}
}

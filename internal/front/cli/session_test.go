package cli

import (
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestSessionSummary: the number is that of the whole session, from before a rewind, too.
func TestSessionSummary(t *testing.T) {
	t.Parallel()
	const next = ": `forkcell session diff s`, then `forkcell session accept s`"
	pending := api.AgentSession{SessionID: "s", Status: api.SessionExited, Decision: "pending", Began: "chk_1", Head: "chk_2", RunIDs: []string{"run_1"}}
	changed, rewound, same := pending, pending, pending
	changed.ChangedFiles, rewound.ChangedFiles = 3, 2
	rewound.RunIDs = []string{"run_1", "run_2"}
	same.Head = same.Began
	for want, s := range map[string]api.AgentSession{
		"session s exited, 3 changed" + next: changed,
		"session s exited, 2 changed" + next: rewound,
		"session s exited, nothing changed":  same,
	} {
		if got := sessionSummary(&s); strings.TrimSpace(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

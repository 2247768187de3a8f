//go:build failpoints

package main

import (
	"encoding/json"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestSessionKilledInItsStart kills the client of a session at each step of its start.
// What it leaves is listed with its state, can be deleted, and is in nobody's way.
func TestSessionKilledInItsStart(t *testing.T) {
	t.Parallel()
	for point, want := range map[string]string{
		"session.based":    "",
		"session.forked":   api.SessionStarting,
		"session.started":  api.SessionStarting,
		"session.seeded":   api.SessionStarting,
		"session.executed": api.SessionRunning,
	} {
		for how, flags := range map[string][]string{"attached": {"-T"}, "detached": {"--detach"}} {
			t.Run(point+" "+how, func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				start := append([]string{"agent", "generic", "--allow-nongit", "--workspace", "work", "--name", "half"}, flags...)
				l.env = []string{"FORKCELL_FAILPOINT=" + point}
				if code, out, errs := l.forkcell(append(start, "--", "sleep", "1000")...); code == 0 {
					t.Fatalf("it did not die: %s%s", out, errs)
				}
				l.env = nil
				if got := l.sessionStatus(); got != want {
					t.Errorf("the session is %q, want %q", got, want)
				}
				if want != "" {
					l.must("session", "show", "half")
					if point != "session.forked" {
						l.must("session", "stop", "half")
					}
					l.must("session", "delete", "half", "--force")
				}
				l.must("agent", "generic", "--allow-nongit", "--workspace", "work", "--name", "half", "--", "true")
				if got := l.sessionStatus(); got != api.SessionExited {
					t.Errorf("the next session is %q", got)
				}
				l.must("session", "delete", "half")
				l.must("receipt", "verify", "--all")
			})
		}
	}
}

// sessionStatus returns the state of the only session, or "".
func (l *lab) sessionStatus() string {
	l.Helper()
	var list []api.AgentSession
	l.ok(json.Unmarshal([]byte(l.must("session", "list", "--json")), &list))
	if len(list) > 1 {
		l.Fatalf("%+v", list)
	}
	if len(list) == 0 {
		return ""
	}
	return list[0].Status
}

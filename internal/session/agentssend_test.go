//go:build agents

package session_test

import (
	"bytes"
	"testing"
	"time"
)

// TestRealAgentsTakeMessages: what is sent to an agent that waits at its input box reaches
// its service. One that does not yet listen is sent it again.
func TestRealAgentsTakeMessages(t *testing.T) {
	t.Parallel()
	for _, p := range programs() {
		if p.name != "codex" && p.name != "gemini" {
			continue // the others take Enter at once
		}
		t.Run(p.name, func(t *testing.T) {
			l := newLane(t, p, nil)
			l.forkcell(append(append([]string{"agent", p.name, "--name", "s", "--detach", "-t", "--timeout", "5m", "--turns", "off"}, l.pins()...), "--")...)
			for range 5 {
				l.forkcell("session", "send", "s", "do the task")
				if l.asked("do the task", 20*time.Second) {
					l.forkcell("session", "stop", "s")
					return
				}
			}
			t.Errorf("no request has the message; the screen:\n%s", l.forkcell("session", "logs", "s"))
		})
	}
}

// asked waits until a request to the service has a text.
func (l *lane) asked(text string, limit time.Duration) bool {
	l.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); {
		for _, q := range l.service.Requests() {
			if bytes.Contains(q.Body, []byte(text)) {
				return true
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

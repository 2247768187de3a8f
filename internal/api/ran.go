package api

import (
	"fmt"
	"strings"
)

// Executed are commands that were executed in a live cell. The events of its run have
// all of them.
type Executed struct {
	Count int64 `json:"count"`
	// Commands are the first ones, each as one line with secrets redacted.
	Commands []string `json:"commands"`
}

// Counted returns how many there are.
func (x Executed) Counted() string { return Counted(int(x.Count), "command") }

// Cut reports whether the list does not have all of them.
func (x Executed) Cut() bool { return x.Count > int64(len(x.Commands)) }

// Ran is what ran: a command, a session of an agent, or a live cell.
type Ran struct {
	Command             []string
	Agent, AgentVersion string
	Executed            *Executed
}

// Ran returns what ran.
func (l LogEntry) Ran() Ran {
	return Ran{Command: l.Command, Agent: l.Agent, AgentVersion: l.AgentVersion, Executed: l.Executed}
}

// Ran returns what ran.
func (i RunInfo) Ran() Ran {
	r := Ran{Command: i.Command, Executed: i.Executed}
	if i.Session != nil {
		r.Agent, r.AgentVersion = i.Session.Agent, i.Session.AgentVersion
	}
	return r
}

// Ran returns what ran.
func (e EarlierWork) Ran() Ran { return Ran{Command: e.Command, Executed: e.Executed} }

// Text returns what ran as one line. argv and line make a command line and a text
// visible.
func (r Ran) Text(argv func([]string) string, line func(string) string) string {
	text := argv(r.Command)
	if r.Agent != "" {
		return "agent " + line(strings.TrimSpace(r.Agent+" "+r.AgentVersion)) + ": " + text
	}
	x := r.Executed
	if x == nil {
		return text
	}
	lines := make([]string, len(x.Commands), len(x.Commands)+1)
	for i, c := range x.Commands {
		lines[i] = line(c)
	}
	if x.Cut() {
		lines = append(lines, "...")
	}
	return fmt.Sprintf("%s, %s: %s", text, x.Counted(), strings.Join(lines, "; "))
}

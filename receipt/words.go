package receipt

import (
	"fmt"
	"strconv"
	"strings"
)

// Words is a receipt in four lines for people. Each is one line of visible characters.
type Words struct {
	Ran     string // what ran, and how it ended
	From    string // the state that it began with, and what it left
	Decided string // what was decided, and by whom
	Why     string // the reason that was given
}

// InWords tells a receipt and the present decision in words. decisions are those about the
// receipt, in any order. Like [Present] it verifies nothing.
func InWords(r *Run, decisions []*Decision) Words {
	standing := Present(r, decisions)
	return Words{Ran: r.ran(), From: r.from(), Decided: standing.inWords(), Why: standing.why()}
}

func (r *Run) ran() string {
	what := visibleAll(r.command())
	if s := r.Session; s != nil {
		what = "the agent " + visible(strings.TrimSpace(s.Agent+" "+s.AgentVersion)) + ": " + what
	} else if x := r.Executed; x != nil {
		what += ", in which " + x.inWords()
	}
	how := visible(string(r.Outcome)) + ", exit code " + strconv.Itoa(r.ExitCode)
	if r.Signal != 0 {
		how = visible(string(r.Outcome)) + " by signal " + strconv.Itoa(r.Signal)
	}
	return fmt.Sprintf("%s, in cell %s at %s: %s", what, visible(r.Cell), stamp(r.StartedAt), how)
}

// command returns the command of the run. Older receipts of sessions have the agent's
// only in the terms of the session.
func (r *Run) command() []string {
	if r.Session != nil && len(r.Session.Command) > 0 {
		return r.Session.Command
	}
	return r.Command
}

// inWords lists the commands on one line.
func (x *Executed) inWords() string {
	lines := make([]string, len(x.Commands))
	for i, c := range x.Commands {
		lines[i] = visible(c)
	}
	if x.Count > int64(len(lines)) {
		lines = append(lines, "...")
	}
	many := " commands were executed: "
	if x.Count == 1 {
		many = " command was executed: "
	}
	return strconv.FormatInt(x.Count, 10) + many + strings.Join(lines, "; ")
}

func (r *Run) from() string {
	policy := "no policy"
	if r.PolicyHash != "" {
		policy = "policy " + short(r.PolicyHash)
	}
	left := "it changed nothing"
	if r.CheckpointAfter.ID != r.CheckpointBefore.ID {
		files := strconv.FormatInt(r.ChangedFiles, 10) + " files"
		if r.ChangedFiles == 1 {
			files = "1 file"
		}
		left = "it changed " + files + " and left state " + visible(r.CheckpointAfter.ID)
	}
	return fmt.Sprintf("state %s with contents %s, under %s, asked by %s; %s",
		visible(r.CheckpointBefore.ID), short(r.CheckpointBefore.Root), policy, visible(r.Actor), left)
}

// short cuts a hash to a length that people can compare.
func short(hash string) string {
	if len(hash) > 12 {
		hash = hash[:12]
	}
	return visible(hash)
}

func (s PresentDecision) inWords() string {
	if s.Result == Pending {
		return "nobody yet, as far as this shows"
	}
	by := visible(s.Actor)
	if s.Automatic {
		by = "a flag of the run, asked by " + by
	}
	if s.Forced {
		by += ", who insisted"
	}
	return fmt.Sprintf("%s by %s (%s)", visible(string(s.Result)), by, visible(s.DecisionID))
}

func (s PresentDecision) why() string {
	if s.Reason == "" {
		return "no reason was given"
	}
	return visible(s.Reason)
}

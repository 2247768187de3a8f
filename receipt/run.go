package receipt

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Outcome is how a run ended.
type Outcome string

// The outcomes.
const (
	Succeeded   Outcome = "succeeded"
	Failed      Outcome = "failed"
	TimedOut    Outcome = "timed_out"
	Killed      Outcome = "killed"
	Interrupted Outcome = "interrupted"
	Errored     Outcome = "error"
)

func knownOutcome(o Outcome) bool {
	switch o {
	case Succeeded, Failed, TimedOut, Killed, Interrupted, Errored:
		return true
	}
	return false
}

// Run is the receipt of one run.
type Run struct {
	Link `json:"link"`

	ReceiptID string `json:"receipt_id"`
	RunID     string `json:"run_id"`

	CheckpointBefore CheckpointRef `json:"checkpoint_before"`
	// CheckpointAfter is the same checkpoint as before when nothing changed.
	CheckpointAfter Checkpoint `json:"checkpoint_after"`
	// ChangedFiles counts changed entries of the workspace.
	ChangedFiles int64 `json:"changed_files"`
	// SplitLinks lists hard-linked names that the run split.
	SplitLinks []string `json:"split_links,omitempty"`

	// Command is the argv with secrets redacted. JSON is text: bytes that are not
	// UTF-8 become U+FFFD unless the caller quotes them first.
	// Of a session it is the agent's, of a live cell what started it: see Executed.
	Command []string `json:"command"`
	// Executed are the commands that were executed in a live cell; nil if there was none.
	// Older receipts do not have it.
	Executed *Executed `json:"executed,omitempty"`

	EnvNames []string `json:"env_names,omitempty"`
	Workdir  string   `json:"workdir"`
	// ReadOnly lists host paths that the operator showed to the cell.
	ReadOnly []string `json:"read_only,omitempty"`

	Outcome    Outcome          `json:"outcome"`
	ExitCode   int              `json:"exit_code"`
	Signal     int              `json:"signal"`
	Error      string           `json:"error,omitempty"`
	StartedAt  time.Time        `json:"started_at"`
	FinishedAt time.Time        `json:"finished_at"`
	Timings    map[string]int64 `json:"timings,omitempty"` // microseconds

	// PolicyHash is the SHA-256 of the canonical text of the policy that the run
	// began with; empty without one.
	PolicyHash string `json:"policy_hash"`
	// Policies lists the policies that ruled one after the other, the one that
	// the run began with first. It is empty where no other ever ruled.
	Policies      []Ruling `json:"policies,omitempty"`
	Backend       string   `json:"backend"`
	BackendReason string   `json:"backend_reason,omitempty"`
	Runtime       string   `json:"runtime"`
	Controls      Controls `json:"controls"`
	// Degraded lists controls that were requested and not achieved.
	Degraded []string `json:"degraded,omitempty"`
	Events   Events   `json:"events"`
	Logs     []Log    `json:"logs,omitempty"`

	// Branch is set if the run began with a copy of another cell's memory.
	Branch *Branch `json:"branch,omitempty"`

	// Paused is set if the run ended because its cell was paused on disk, and Resumed if
	// it began with what such a cell was paused with.
	Paused  *Pause `json:"paused,omitempty"`
	Resumed *Pause `json:"resumed,omitempty"`

	// Session is set if the run is a session of a coding agent.
	Session *Session `json:"session,omitempty"`

	// Decision is the one that a flag made at once; pending without such a flag.
	Decision AutoDecision `json:"decision"`
	// DecisionID names an automatic decision, which has no separate statement.
	DecisionID string `json:"decision_id,omitempty"`
}

// Executed are commands that were executed in a live cell. The events of its run have
// all of them.
type Executed struct {
	Count int64 `json:"count"`
	// Commands are the first ones, each as one line with secrets redacted.
	Commands []string `json:"commands"`
}

func (x *Executed) check() error {
	if x != nil && (x.Count < 1 || int64(len(x.Commands)) > x.Count) {
		return errors.New("executed: fewer commands than are listed, or none")
	}
	return nil
}

// Branch says what a run that began with the memory of another cell is a copy of.
type Branch struct {
	// Source is the name that the other cell had, SourceRunID its run.
	Source      string `json:"source"`
	SourceRunID string `json:"source_run_id"`
	// CheckpointID is the state of its files at that moment.
	CheckpointID string    `json:"checkpoint_id"`
	At           time.Time `json:"at"`
}

func (b *Branch) check() error {
	if b == nil {
		return nil
	}
	if err := errors.Join(checkID("run", b.SourceRunID), checkID("chk", b.CheckpointID)); err != nil {
		return fmt.Errorf("branch: %w", err)
	}
	if b.Source == "" || !isUTC(b.At) {
		return errors.New("branch: no source, or at is not a UTC time")
	}
	return nil
}

// Pause says what a cell was paused with.
type Pause struct {
	// RunID is the run that ended with the pause.
	RunID string    `json:"run_id"`
	At    time.Time `json:"at"`
	// FSOnly: its processes were ended. Otherwise Memory is the SHA-256 of what was kept
	// of them.
	FSOnly bool   `json:"fs_only"`
	Memory string `json:"memory,omitempty"`
}

func (p *Pause) check(name string) error {
	if p == nil {
		return nil
	}
	if err := checkID("run", p.RunID); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !isUTC(p.At) {
		return fmt.Errorf("%s: at is not a UTC time", name)
	}
	if p.FSOnly != (p.Memory == "") || p.Memory != "" && !isHash(p.Memory) {
		return fmt.Errorf("%s: memory is not the SHA-256 that it needs", name)
	}
	return nil
}

// describe says when and with what a cell was paused.
func (p *Pause) describe() string {
	if p.FSOnly {
		return stamp(p.At) + ", without its processes"
	}
	return stamp(p.At) + ", with its memory, sha256:" + p.Memory
}

func (p *Pause) canonical() *Pause {
	if p == nil {
		return nil
	}
	c := *p
	c.At = utc(c.At)
	return &c
}

// TimingCommand is the name of the time that the command itself took.
const TimingCommand = "command_us"

// Ruling is a policy and since when it ruled.
type Ruling struct {
	PolicyHash string `json:"policy_hash"`
	// FromEvent is the number of the first event under it.
	FromEvent int64 `json:"from_event"`
}

// Controls lists what was requested from the runtime and what it achieved. Both are
// documents of the runtime: bound by the signature, not interpreted here.
type Controls struct {
	Asked    json.RawMessage `json:"asked,omitempty"`
	Achieved json.RawMessage `json:"achieved,omitempty"`
}

// Events sums up the events of a run.
type Events struct {
	Count int64 `json:"count"`
	// ChainHead is the hash of the last event; empty without events.
	ChainHead string           `json:"chain_head"`
	ByAction  map[string]int64 `json:"by_action,omitempty"`
}

// Log is the stored output of one stream. SHA256 and Bytes are those of what is stored.
type Log struct {
	Stream    string `json:"stream"`
	SHA256    string `json:"sha256"`
	Bytes     int64  `json:"bytes"`
	Truncated bool   `json:"truncated"`
	// Length is the number of bytes that a truncated stream had, and 0 for others. Older
	// receipts do not have it.
	Length int64 `json:"length,omitempty"`
}

func (l Log) check() error {
	if !isHash(l.SHA256) || l.Bytes < 0 {
		return fmt.Errorf("log %q: bad sha256 or size", l.Stream)
	}
	if l.Length != 0 && (!l.Truncated || l.Length <= l.Bytes) {
		return fmt.Errorf("log %q: bad length", l.Stream)
	}
	return nil
}

// AutoDecision is the decision inside a receipt.
type AutoDecision struct {
	Result    Result `json:"result"` // Pending, Accepted or Restored
	Automatic bool   `json:"automatic"`
	Reason    string `json:"reason,omitempty"`
}

// PredicateType is [TypeRun].
func (*Run) PredicateType() string { return TypeRun }

// ID is the id of the receipt.
func (r *Run) ID() string { return r.ReceiptID }

func (r *Run) subjects() []Subject { return rootSubjects(r.CheckpointAfter) }

func (r *Run) canonical() {
	r.Link.canonical()
	r.StartedAt, r.FinishedAt = utc(r.StartedAt), utc(r.FinishedAt)
	if r.Branch != nil {
		b := *r.Branch
		b.At = utc(b.At)
		r.Branch = &b
	}
	r.Paused, r.Resumed = r.Paused.canonical(), r.Resumed.canonical()
	if r.Command == nil {
		r.Command = []string{}
	}
}

func (r *Run) check() error {
	if err := errors.Join(
		r.Link.check(true),
		checkID("rcpt", r.ReceiptID),
		checkID("run", r.RunID),
	); err != nil {
		return err
	}
	if err := r.CheckpointBefore.check(); err != nil {
		return fmt.Errorf("checkpoint_before: %w", err)
	}
	if err := r.CheckpointAfter.check(); err != nil {
		return fmt.Errorf("checkpoint_after: %w", err)
	}
	if !knownOutcome(r.Outcome) {
		return fmt.Errorf("unknown outcome %q", r.Outcome)
	}
	if !isUTC(r.StartedAt) || !isUTC(r.FinishedAt) {
		return errors.New("started_at or finished_at is not a UTC time")
	}
	if !isHashOrEmpty(r.PolicyHash) || !isHashOrEmpty(r.Events.ChainHead) {
		return errors.New("policy_hash or chain_head is not a SHA-256")
	}
	if err := r.checkPolicies(); err != nil {
		return err
	}
	if err := errors.Join(r.Executed.check(), r.Branch.check(), r.Session.check(), r.Paused.check("paused"), r.Resumed.check("resumed")); err != nil {
		return err
	}
	if r.Command == nil {
		return errors.New("no command")
	}
	for _, l := range r.Logs {
		if err := l.check(); err != nil {
			return err
		}
	}
	return r.checkDecision()
}

// checkPolicies wants a list that begins with the run's own policy and goes on.
func (r *Run) checkPolicies() error {
	for i, p := range r.Policies {
		switch {
		case !isHash(p.PolicyHash):
			return errors.New("policies: not a SHA-256")
		case i == 0 && (p.PolicyHash != r.PolicyHash || p.FromEvent != 1):
			return errors.New("policies: the first is not the run's own, from event 1")
		case i > 0 && p.FromEvent <= r.Policies[i-1].FromEvent:
			return errors.New("policies: not in the order of events")
		}
	}
	if len(r.Policies) == 1 {
		return errors.New("policies: a list of one is not allowed")
	}
	return nil
}

func (r *Run) checkDecision() error {
	switch r.Decision.Result {
	case Pending:
		if r.Decision.Automatic || r.DecisionID != "" {
			return errors.New("decision: pending, yet decided")
		}
		return nil
	case Accepted:
		if r.Outcome != Succeeded {
			return fmt.Errorf("decision: accepted, yet the outcome is %s", r.Outcome)
		}
	case Restored:
	default:
		return fmt.Errorf("decision: a receipt cannot hold %q", r.Decision.Result)
	}
	if !r.Decision.Automatic {
		return errors.New("decision: a receipt has only an automatic one")
	}
	return checkID("dec", r.DecisionID)
}

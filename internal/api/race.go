package api

import "time"

// RaceRequest asks for several attempts at the same time, each in a fork of a cell.
type RaceRequest struct {
	Cell string `json:"cell"`
	// Command is what each of N attempts runs. Attempts, instead of them, are
	// different commands.
	Command  Texts         `json:"command,omitempty"`
	N        int           `json:"n,omitempty"`
	Attempts []RaceCommand `json:"attempts,omitempty"`
	// Warm makes the attempts branches of the cell, which must be live: they begin with
	// its memory. Commands are executed in them.
	Warm bool `json:"warm,omitempty"`
	// Code, instead of Command, is what the warm interpreters of branches run.
	Code Text `json:"code,omitempty"`
	// RunOptions are those of every attempt, and of the judge except for the network.
	RunOptions
	// Jobs is how many attempts run at once; 0 is one for each processor.
	Jobs int `json:"jobs,omitempty"`
	// Judge is the command that judges each attempt that succeeded. It may be empty.
	Judge Texts `json:"judge,omitempty"`
	// Best is exit, score or fastest; "" is exit.
	Best string `json:"best,omitempty"`
	// Accept moves the cell to the state of the winner, and Apply writes that to the
	// source directory.
	Accept bool `json:"accept,omitempty"`
	Apply  bool `json:"apply,omitempty"`
	// Keep keeps the cells of all attempts.
	Keep bool `json:"keep,omitempty"`
}

// RaceCommand is the command of one attempt.
type RaceCommand struct {
	Command Texts `json:"command"`
	Env     Texts `json:"env,omitempty"` // K=V, over those of the race
	// Code, instead of Command, is what the warm interpreter of a branch runs.
	Code Text `json:"code,omitempty"`
}

// RaceAttempt is how one attempt ended, and how it was judged.
type RaceAttempt struct {
	Attempt   int    `json:"attempt"`
	Cell      string `json:"cell"`
	RunID     string `json:"run_id"`
	Outcome   string `json:"outcome"`
	ExitCode  int    `json:"exit_code"`
	ReceiptID string `json:"receipt_id"`
	// Score is nil if the last line of the judge's output was no finite number, and
	// JudgeExitCode if the attempt was not judged.
	Score          *float64 `json:"score"`
	JudgeExitCode  *int     `json:"judge_exit_code"`
	JudgeReceiptID string   `json:"judge_receipt_id,omitempty"`
	ChangedFiles   int      `json:"changed_files"`
	// Elsewhere counts what the attempt changed outside the workspace. No race accepts it.
	Elsewhere  []AreaChange `json:"elsewhere,omitempty"`
	DurationUS int64        `json:"duration_us"` // of the command
}

// RaceResult is the result document of a race.
type RaceResult struct {
	Cell string `json:"cell"`
	// Winner is the number of an attempt, or nil.
	Winner   *int          `json:"winner"`
	Attempts []RaceAttempt `json:"attempts"`
	// DecisionID is empty unless the winner was accepted. Also are runs that were
	// decided with it.
	DecisionID string   `json:"decision_id"`
	Also       []string `json:"also_decided"`
	// Kept are the cells of attempts that exist after the race.
	Kept    []string     `json:"kept"`
	Applied *ApplyResult `json:"applied,omitempty"`
}

// RaceEventKind is what happened in a race.
type RaceEventKind string

// The kinds of events. A stream of a race has attempt, judged and result.
const (
	RaceForked    RaceEventKind = "forked"  // the cells of all attempts exist
	RaceStarted   RaceEventKind = "started" // an attempt begins
	RaceAttempted RaceEventKind = "attempt" // an attempt has ended
	RaceJudging   RaceEventKind = "judging" // its judge begins
	RaceJudged    RaceEventKind = "judged"  // its judge has ended
	RaceEnded     RaceEventKind = "result"
)

// RaceEvent is something that happened in a race.
type RaceEvent struct {
	Kind RaceEventKind
	// Attempt is the attempt that the event is about, as it is known so far. It is
	// the zero value in forked and result.
	Attempt RaceAttempt
	// Attempts are those of forked, and Result is that of result.
	Attempts []RaceAttempt
	Result   *RaceResult
}

// RaceDecision is what an engine needs to accept the winner of a race.
type RaceDecision struct {
	Best     string
	Judge    Texts
	Winner   int
	Attempts []RaceAttempt
	Apply    bool
	Wait     time.Duration // for a busy cell; negative is for ever
	// Reason and Forced are set if a person chose the winner.
	Reason string
	Forced bool
}

// ChooseRequest chooses the winner of a race that has ended.
type ChooseRequest struct {
	Cell    string `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
	Attempt string `json:"attempt" doc:"The cell of the attempt that shall win. The race has kept it." minLength:"1" maxLength:"63"`
	Reason  string `json:"reason,omitempty" doc:"Why, for the record."`
	Force   bool   `json:"force,omitempty" doc:"Choose an attempt that did not succeed."`
	Apply   bool   `json:"apply,omitempty" doc:"Also write the changes to the source directory."`
	// A negative Wait is for ever.
	Wait Duration `json:"wait,omitzero" doc:"How long to wait for a busy cell."`
}

// PastRace is a race as the records have it.
type PastRace struct {
	RaceID string `json:"race_id"`
	// CheckpointID is the state that was forked. Open reports that the cell is still in
	// it and that the race has ended, so that a winner can be chosen.
	CheckpointID string        `json:"checkpoint_id"`
	Open         bool          `json:"open"`
	Judge        []string      `json:"judge"`
	Winner       *int          `json:"winner"` // whose work was accepted into the cell, or nil
	Attempts     []RaceAttempt `json:"attempts"`
}

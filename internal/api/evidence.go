package api

import "time"

// EventQuery says which events are asked for. Zero fields select everything.
type EventQuery struct {
	Cell   string    `json:"cell"`
	Run    string    `json:"run,omitempty"`   // an id or a unique prefix
	Class  int       `json:"class,omitempty"` // the number of the event's class
	Action string    `json:"action,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Limit  int       `json:"limit,omitempty"` // only the newest so many
	// Whole lets a stream of one run begin with its first event.
	Whole bool `json:"-"`
	// Sees, if set, selects the cells whose events are wanted, by their names. Viewer
	// identifies what it selects.
	Sees   func(cell string) bool `json:"-"`
	Viewer string                 `json:"-"`
}

// LogEntry is one line of a cell's history, oldest first.
type LogEntry struct {
	Seq          int64     `json:"seq"`
	Kind         string    `json:"kind"` // init, fork, run, decision, checkpoint, refresh, apply, undo, rename; live: now, and no statement yet
	ID           string    `json:"id"`
	CreatedAt    time.Time `json:"created_at"`
	CheckpointID string    `json:"checkpoint_id,omitempty"`
	RunID        string    `json:"run_id,omitempty"`
	ReceiptID    string    `json:"receipt_id,omitempty"`
	Outcome      string    `json:"outcome,omitempty"`
	ExitCode     *int      `json:"exit_code,omitempty"`
	Decision     string    `json:"decision,omitempty"`
	Command      []string  `json:"command,omitempty"`
	// Agent and AgentVersion are those of a session, whose command is the agent's.
	Agent        string `json:"agent,omitempty"`
	AgentVersion string `json:"agent_version,omitempty"`
	// Executed are the commands that were executed in a live cell.
	Executed     *Executed `json:"executed,omitempty"`
	ChangedFiles int       `json:"changed_files,omitempty"`
	Actor        string    `json:"actor,omitempty"`
	Reason       string    `json:"reason,omitempty"`
	Name         string    `json:"name,omitempty"`
	// Details are further facts about a change of the cell, as its statement has them.
	Details map[string]string `json:"details,omitempty"`
}

// GraphNode is a checkpoint in the lineage over all cells.
type GraphNode struct {
	CheckpointID string    `json:"checkpoint_id"`
	Parent       string    `json:"parent"`
	Cell         string    `json:"cell"`
	Kind         string    `json:"kind"`
	Root         string    `json:"root"`
	Names        []string  `json:"names"`
	Heads        []string  `json:"heads"` // cells whose head it is
	RunID        string    `json:"run_id"`
	Outcome      string    `json:"outcome"`
	Decision     string    `json:"decision"`
	Freed        bool      `json:"freed"`
	CreatedAt    time.Time `json:"created_at"`
}

// ReceiptDoc is one receipt in every form.
type ReceiptDoc struct {
	Info     ReceiptInfo `json:"info"`
	Envelope []byte      `json:"envelope"` // the exact signed bytes
	JSON     []byte      `json:"json"`     // the statement, and its present decision
	Markdown []byte      `json:"markdown"`
}

// VerifyResult lists what does not hold.
type VerifyResult struct {
	Cell        string          `json:"cell"`
	Checkpoints []VerifiedState `json:"checkpoints"`
	Differences []VerifyProblem `json:"differences"`
}

// VerifiedState is one state that was recomputed.
type VerifiedState struct {
	CheckpointID string `json:"checkpoint_id"`
	Root         string `json:"root"`
	OK           bool   `json:"ok"`
}

// VerifyProblem is one difference, by name.
type VerifyProblem struct {
	CheckpointID string `json:"checkpoint_id"`
	Path         string `json:"path"`
	What         string `json:"what"`
}

// ReceiptInfo is one line of receipt list.
type ReceiptInfo struct {
	ReceiptID string    `json:"receipt_id"`
	RunID     string    `json:"run_id"`
	Cell      string    `json:"cell"`
	Outcome   string    `json:"outcome"`
	Decision  string    `json:"decision"`
	CreatedAt time.Time `json:"created_at"`
}

// ReceiptVerifyRequest names what to verify: a receipt, a cell, everything, or a
// bundle.
type ReceiptVerifyRequest struct {
	Receipt string `json:"receipt,omitempty" doc:"A receipt, by its id."`
	Cell    string `json:"cell,omitempty" doc:"Every receipt of this cell."`
	All     bool   `json:"all,omitempty" doc:"Every receipt."`
	Bundle  []byte `json:"bundle,omitempty" doc:"A bundle, in base64."`
	// Key is a public key in PEM that is trusted besides the usual ones.
	Key []byte `json:"key,omitempty" doc:"A public key in PEM, in base64, to trust besides those of the daemon."`
}

// ReceiptVerifyResult lists what does not hold of receipts.
type ReceiptVerifyResult struct {
	Checked  int              `json:"checked"`
	OK       bool             `json:"ok"`
	Problems []ReceiptProblem `json:"problems"`
	Bound    []BoundHash      `json:"bound"`
	KeyID    string           `json:"key_id"`
	Notes    []string         `json:"notes"` // what holds and should be known
	// Words says what a bundle is about, if its signature holds.
	Words *ReceiptWords `json:"words,omitempty"`
}

// ReceiptWords is a receipt in four lines for people.
type ReceiptWords struct {
	Ran     string `json:"ran"`     // what ran, and how it ended
	From    string `json:"from"`    // the state that it began with, and what it left
	Decided string `json:"decided"` // what was decided, and by whom
	Why     string `json:"why"`     // the reason that was given
}

// ReceiptProblem is one thing that does not hold.
type ReceiptProblem struct {
	ID   string `json:"id"`
	What string `json:"what"`
}

// BoundHash is one hash that a statement binds: verified, freed, missing, not included,
// mismatch. The id is that of the statement; in a bundle it is left out.
type BoundHash struct {
	ID     string `json:"id,omitempty"`
	What   string `json:"what"`
	SHA256 string `json:"sha256"`
	Status string `json:"status"`
}

// DecisionInfo is one decision.
type DecisionInfo struct {
	DecisionID string    `json:"decision_id"`
	ReceiptID  string    `json:"receipt_id"`
	RunID      string    `json:"run_id"`
	Cell       string    `json:"cell"`
	Result     string    `json:"result"`
	Automatic  bool      `json:"automatic"`
	Forced     bool      `json:"forced"`
	Reason     string    `json:"reason"`
	Actor      string    `json:"actor"`
	HeadBefore string    `json:"head_before"`
	HeadAfter  string    `json:"head_after"`
	CreatedAt  time.Time `json:"created_at"`
	Race       *RaceInfo `json:"race,omitempty"` // if it accepted the winner of a race
}

// RaceInfo has the signed facts of a race.
type RaceInfo struct {
	Best     string            `json:"best"`
	Judge    []string          `json:"judge"`
	Winner   int               `json:"winner"`
	Attempts []RaceAttemptInfo `json:"attempts"`
}

// RaceAttemptInfo has the signed facts of one attempt.
type RaceAttemptInfo struct {
	Attempt        int      `json:"attempt"`
	Cell           string   `json:"cell"`
	RunID          string   `json:"run_id"`
	ReceiptID      string   `json:"receipt_id"`
	Outcome        string   `json:"outcome"`
	ExitCode       int      `json:"exit_code"`
	DurationUS     int64    `json:"duration_us"`
	Score          *float64 `json:"score"`
	JudgeExitCode  *int     `json:"judge_exit_code"`
	JudgeReceiptID string   `json:"judge_receipt_id"`
}

// KeyInfo is the signing identity.
type KeyInfo struct {
	KeyID        string   `json:"key_id"`
	Algorithm    string   `json:"algorithm"`
	PublicKeyPEM string   `json:"public_key_pem"`
	Trusted      []string `json:"trusted"`
	Previous     []string `json:"previous"`
}

// RecoverResult says what the log and the layers gave back.
type RecoverResult struct {
	Statements   int      `json:"statements"`
	Cells        int      `json:"cells"`
	RemovedCells int      `json:"removed_cells"`
	Checkpoints  int      `json:"checkpoints"`
	Runs         int      `json:"runs"`
	Problems     []string `json:"problems"`
	Kept         []string `json:"kept"`  // known to only one of log and database
	Notes        []string `json:"notes"` // what else the operator should know
	OldDatabase  string   `json:"old_database"`
}

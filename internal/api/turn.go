package api

import "time"

// TurnFile is a FIFO in a live cell whose TurnRequest has Asked. A program that
// writes a byte to it asks for a turn. It learns nothing, and cannot ask for anything
// else.
const TurnFile = "/run/forkcell/turn"

// The causes of turns.
const (
	TurnByAsk     = "asked"   // a program in the cell asked for it
	TurnByTime    = "every"   // its time had come
	TurnByQuiet   = "quiet"   // the commands had neither read nor written for a while
	TurnByRequest = "request" // a caller asked for it
)

// TurnRequest says when turns of a live cell are taken: checkpoints of its files, to
// which it can be rewound. At most one is taken in a second.
type TurnRequest struct {
	// Asked lets programs in the cell ask for turns, by TurnFile.
	Asked bool `json:"asked,omitempty"`
	// Every takes a turn that often, if files have changed; 0 is never.
	Every time.Duration `json:"every_ns,omitempty"`
	// Quiet takes a turn when the commands of the cell have neither read nor written
	// for so long, once for each time that they do; 0 is never.
	Quiet time.Duration `json:"quiet_ns,omitempty"`
}

// TurnInfo is one turn of a live cell.
type TurnInfo struct {
	// Turn counts from 1 over all runs of the cell. Turn 0 is the state before the
	// first one that had turns.
	Turn         int       `json:"turn"`
	CheckpointID string    `json:"checkpoint_id"`
	At           time.Time `json:"at"`
	// ChangedFiles, Added and Removed count the files and lines that changed since
	// the turn before in the workspace.
	ChangedFiles int `json:"changed_files"`
	Added        int `json:"added"`
	Removed      int `json:"removed"`
	// PauseUS is how long the cell stood still.
	PauseUS int64 `json:"pause_us"`
	// Unfrozen means that the cell could not be stopped: its files were copied until
	// two copies agreed.
	Unfrozen bool `json:"unfrozen,omitempty"`
	// By is the cause, and Asked how many programs in the cell had asked for it.
	By    string `json:"by,omitempty"`
	Asked int64  `json:"asked,omitempty"`
	RunID string `json:"run_id"`
	// Left means that a rewind went back to a state before it.
	Left bool `json:"left,omitempty"`
}

// TurnList lists the turns of a cell.
type TurnList struct {
	Cell  string     `json:"cell"`
	Turns []TurnInfo `json:"turns"`
	// RunIDs are the runs that had turns, one for each stretch between rewinds.
	RunIDs []string `json:"run_ids"`
}

// RewindRequest takes a cell back to a turn.
type RewindRequest struct {
	Cell   string `json:"cell"`
	To     int    `json:"to"`
	Reason string `json:"reason,omitempty"`
}

// RewindResult says where a cell was taken.
type RewindResult struct {
	Cell         string `json:"cell"`
	Turn         int    `json:"turn"`
	CheckpointID string `json:"checkpoint_id"`
	Root         string `json:"root"`
	// Left is the state that the cell was in. It is kept until gc.
	Left string `json:"left_checkpoint_id"`
	// Stopped is the result of the run that was stopped; nil if the cell was not
	// live.
	Stopped *RunResult `json:"stopped,omitempty"`
	// SetAside are control files that the session had made and that the state does
	// not have any more.
	SetAside []string `json:"set_aside,omitempty"`
}

package api

import (
	"encoding/json"
	"time"
)

// WarmRequest says how a cell becomes a template.
type WarmRequest struct {
	// Args is the command that becomes the warm process.
	Args Texts `json:"command"`
	// Input is what the command reads from its standard input.
	Input Text `json:"input,omitempty"`
	// Ready is when the cell counts as ready, besides what the process of a template
	// says: an expression that its output matches, port:N, file:PATH or notify. "" is
	// when the process says so.
	Ready string `json:"ready,omitempty"`
	// Timeout is how long that may take; 0 is a minute.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
}

// BranchRequest asks for live cells with the memory and the files that another live
// cell has now.
type BranchRequest struct {
	Cell string `json:"cell"`
	// Name and N name the new cells, as those of a fork. "" is a name after the cell.
	Name string `json:"name,omitempty"`
	N    int    `json:"n,omitempty"`
	// From is a checkpoint of the cell with memory: its id, a unique prefix or its name.
	// "" is the present moment of a live cell.
	From string `json:"from,omitempty"`
	// Policy is enforced together with that of the branched cell: both must allow. nil
	// is that of the cell.
	Policy *PolicyFile `json:"policy,omitempty"`
	// These limits can only restrict those of the branched cell.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	Memory  int64         `json:"memory,omitempty"`
	CPUs    int64         `json:"cpus_milli,omitempty"`
	PIDs    int64         `json:"pids,omitempty"`
	// Credentials and CredentialsFile are those of NetworkRequest. A credential
	// without a source has the value that the branched cell has.
	Credentials     Texts `json:"credentials,omitempty"`
	CredentialsFile Text  `json:"credentials_file,omitempty"`
	// Settings are those of the new cells.
	Settings Settings `json:"settings,omitzero"`
}

// BranchResult lists the cells of a branch.
type BranchResult struct {
	Source string `json:"source"`
	// CheckpointID is the state of the files that the cells began with.
	CheckpointID string `json:"checkpoint_id"`
	// PauseUS is how long the branched cell was held for it.
	PauseUS  int64         `json:"pause_us"`
	Children []BranchChild `json:"children"`
}

// BranchChild is one cell of a branch.
type BranchChild struct {
	Cell string `json:"cell"`
	// FirstAnswerUS is the time from the request to the first answer of its process.
	FirstAnswerUS int64 `json:"first_answer_us"`
	// MemoryBytes is the memory of its processes, with its share of the memory that
	// they have together with others.
	MemoryBytes int64 `json:"memory_bytes"`
	// Sockets says what became of the listening sockets and the connections of the
	// branched cell.
	Sockets string `json:"sockets,omitempty"`
}

// Names returns the names of the cells.
func (r *BranchResult) Names() []string {
	names := make([]string, len(r.Children))
	for i, c := range r.Children {
		names[i] = c.Cell
	}
	return names
}

// BranchOrigin says what a branch was made of.
type BranchOrigin struct {
	// Source is the name that the branched cell had, SourceRunID its run.
	Source       string    `json:"source"`
	SourceRunID  string    `json:"source_run_id"`
	CheckpointID string    `json:"checkpoint_id"`
	At           time.Time `json:"at"`
}

// EvalRequest asks the warm interpreter of a live cell to run code.
type EvalRequest struct {
	Cell string `path:"cell" json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
	Code string `json:"code" doc:"The code, in the language of the warm interpreter."`
}

// EvalResult is what came of code.
type EvalResult struct {
	// Value is how the language writes the value of the last expression, or nil.
	Value *string `json:"value"`
	// ValueJSON is the value, or null if JSON cannot hold it.
	ValueJSON json.RawMessage `json:"value_json"`
	// Output is what the code printed.
	Output string `json:"output"`
	// Truncated names the fields that are not whole, because they were too long: value
	// and output have their beginnings, value_json is null.
	Truncated []string `json:"truncated,omitempty" enum:"value,value_json,output"`
	// Error is nil if the code raised nothing.
	Error      *EvalError `json:"error"`
	DurationUS int64      `json:"duration_us"`
}

// EvalError is what code raised.
type EvalError struct {
	Type      string `json:"type"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
}

package store

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"
)

// Run is one governed run.
type Run struct {
	ID        string `json:"-"`
	CellID    string `json:"-"`
	Ord       int64  `json:"-"`
	State     string `json:"-"` // running or done
	After     string `json:"-"`
	Decision  string `json:"-"` // pending, accepted, rejected, restored, partial, superseded
	ReceiptID string `json:"-"`

	Before  string   `json:"before"`
	Command []string `json:"command"`
	// Executed are the commands that were executed in a live cell, as the receipt of its
	// finished run has them.
	Executed  json.RawMessage `json:"executed,omitempty"`
	EnvNames  []string        `json:"env_names"`
	Workdir   string          `json:"workdir"`
	ReadOnly  []string        `json:"read_only,omitempty"`
	TimeoutUS int64           `json:"timeout_us,omitempty"`
	Policy    string          `json:"policy,omitempty"`  // hash of the policy that ruled it
	Ceiling   string          `json:"ceiling,omitempty"` // hash of the ceiling that the policy of an unfinished run is under
	// Given names what only an operator could give to an unfinished run, and Starter is the
	// id of the caller who started it; "" is the operator.
	Given   []string `json:"given,omitempty"`
	Starter string   `json:"starter,omitempty"`
	// Loan is the disk space that the starter's quota has set aside for an unfinished run.
	Loan            *Loan     `json:"loan,omitempty"`
	RestoreOnFail   bool      `json:"restore_on_fail,omitempty"`
	AcceptOnSuccess bool      `json:"accept_on_success,omitempty"`
	Actor           string    `json:"actor"`
	Outcome         string    `json:"outcome"`
	ExitCode        int       `json:"exit_code"`
	Signal          int       `json:"signal"`
	Changed         int       `json:"changed"`
	Stdout          string    `json:"stdout,omitempty"` // digests of the stored output
	Stderr          string    `json:"stderr,omitempty"`
	StartedAt       time.Time `json:"started_at"`
	FinishedAt      time.Time `json:"finished_at"`
	// Asked is the request of an unfinished run, as its receipt will have it.
	Asked json.RawMessage `json:"asked,omitempty"`
	// Runtime is the runtime of an unfinished run.
	Runtime string `json:"runtime,omitempty"`
	// Paused: the processes of an unfinished run are stopped.
	Paused bool `json:"paused,omitempty"`
	// Pause, if set, is what the cell of an unfinished run will be paused with: all that
	// it needs is kept.
	Pause *Pause `json:"pause,omitempty"`
	// Resumed is the pause that an unfinished run continues after, if any.
	Resumed *Pause `json:"resumed,omitempty"`
	// Template: an unfinished run is that of a warm template.
	Template bool `json:"template,omitempty"`
	// Branch is what an unfinished run is a branch of, as its receipt will have it.
	Branch json.RawMessage `json:"branch,omitempty"`
	// Control lists the control files of the workspace that the run masked; nil if
	// it masked none.
	Control json.RawMessage `json:"control,omitempty"`
	// Session is the session of a coding agent that the run is, as its receipt has it.
	Session json.RawMessage `json:"session,omitempty"`
	// Known is what the programs of a session's run know of its credentials: JSON with
	// placeholders, no values.
	Known string `json:"known,omitempty"`
	// Turns says when the run takes turns; nil if it takes none.
	Turns json.RawMessage `json:"turns,omitempty"`
	// Degraded are controls of an unfinished run that are weaker than requested.
	Degraded []string `json:"degraded,omitempty"`
	// Memory (bytes) and CPUsMilli are the limits of an unfinished run; 0 for none.
	Memory    int64 `json:"memory,omitempty"`
	CPUsMilli int64 `json:"cpus_milli,omitempty"`
	// CPUMicros is the processor time of a finished run; 0 if it was not counted.
	CPUMicros int64 `json:"cpu_us,omitempty"`
	// OutputBytes is the size of the stored output of a finished run, EventBytes that of
	// its journal of events.
	OutputBytes int64 `json:"output_bytes,omitempty"`
	EventBytes  int64 `json:"event_bytes,omitempty"`
	// PolicyBytes is the size of the text of its policy, if it was stored for it.
	PolicyBytes int64 `json:"policy_bytes,omitempty"`
	// OutputFreed: gc has freed the stored output. Its digests stay.
	OutputFreed bool `json:"output_freed,omitempty"`
	// Kinds are those of the events of a finished run, so that queries need not open its
	// journal. It is empty if they are not known.
	Kinds string `json:"kinds,omitempty"`
}

// Loan is disk space that runs of one process share.
type Loan struct {
	ID    string `json:"id"`
	Bytes int64  `json:"bytes"`
}

// Failed reports whether a finished run did not succeed.
func (r Run) Failed() bool { return r.Outcome != "succeeded" }

const runColumns = "id, cell_id, ord, state, after, decision, receipt_id, doc"

func scanRun(r *sqlite.Stmt) (Run, error) {
	run := Run{
		ID: r.ColumnText(0), CellID: r.ColumnText(1), Ord: r.ColumnInt64(2), State: r.ColumnText(3),
		After: r.ColumnText(4), Decision: r.ColumnText(5), ReceiptID: r.ColumnText(6),
	}
	err := decode(r.ColumnText(7), &run)
	return run, err
}

const putRun = `INSERT INTO runs(id,cell_id,ord,state,after,decision,receipt_id,doc)
	VALUES(?,?,max(coalesce((SELECT ord FROM runs ORDER BY rowid DESC LIMIT 1),0),(SELECT dropped FROM identity WHERE rowid=1))+1,?,?,?,?,?)
	ON CONFLICT(id) DO UPDATE SET state=excluded.state, after=excluded.after, decision=excluded.decision,
		receipt_id=excluded.receipt_id, doc=excluded.doc`

// PutRun inserts or replaces a run.
func (tx *Tx) PutRun(r Run) error {
	doc, err := encode(r)
	if err != nil {
		return err
	}
	return tx.exec(putRun, r.ID, r.CellID, r.State, r.After, r.Decision, r.ReceiptID, doc)
}

// Run finds a run by its whole id.
func (tx *Tx) Run(id string) (Run, error) {
	if r, ok := tx.runs[id]; ok {
		return r, nil
	}
	r, err := one(tx, scanRun, "SELECT "+runColumns+" FROM runs WHERE id=?", id)
	if err == nil {
		tx.keep(r)
	}
	return r, err
}

// keep notes runs that were read.
func (tx *Tx) keep(runs ...Run) {
	if tx.runs == nil {
		tx.runs = make(map[string]Run, len(runs))
	}
	for _, r := range runs {
		tx.runs[r.ID] = r
	}
}

// RunOfReceipt finds the run that a receipt is about.
func (tx *Tx) RunOfReceipt(id string) (Run, error) {
	return one(tx, scanRun, "SELECT "+runColumns+" FROM runs WHERE receipt_id=? AND receipt_id<>''", id)
}

// Runs lists the runs of a cell, or of all with "", oldest first.
func (tx *Tx) Runs(cellID string) ([]Run, error) {
	if cellID == "" {
		return all(tx, scanRun, "SELECT "+runColumns+" FROM runs ORDER BY ord")
	}
	runs, err := all(tx, scanRun, "SELECT "+runColumns+" FROM runs WHERE cell_id=? ORDER BY ord", cellID)
	if err == nil {
		tx.keep(runs...)
	}
	return runs, err
}

// RunsDecided lists the finished runs of a cell with a decision, oldest first.
func (tx *Tx) RunsDecided(cellID, decision string) ([]Run, error) {
	return all(tx, scanRun, "SELECT "+runColumns+" FROM runs WHERE cell_id=? AND decision=? AND state='done' ORDER BY ord", cellID, decision)
}

// RunEnds maps the finished runs of a cell to the states that they ended with.
func (tx *Tx) RunEnds(cellID string) (map[string]string, error) {
	ends := map[string]string{}
	err := tx.query(func(r *sqlite.Stmt) error {
		ends[r.ColumnText(0)] = r.ColumnText(1)
		return nil
	}, "SELECT id, after FROM runs WHERE cell_id=? AND state='done'", cellID)
	return ends, err
}

// Runs have no index by their numbers: it would slow every run. Their rows are in the
// same order.
const (
	runsAfter      = "SELECT " + runColumns + " FROM runs WHERE rowid>? ORDER BY rowid LIMIT ?"
	runsBefore     = "SELECT " + runColumns + " FROM runs WHERE rowid<=? ORDER BY rowid DESC LIMIT ?"
	cellRunsAfter  = "SELECT " + runColumns + " FROM runs WHERE cell_id=? AND ord>? ORDER BY ord LIMIT ?"
	cellRunsBefore = "SELECT " + runColumns + " FROM runs WHERE cell_id=? AND ord<? ORDER BY ord DESC LIMIT ?"
	lastRunUpTo    = "SELECT rowid, ord FROM runs WHERE rowid<=? ORDER BY rowid DESC LIMIT 1"
)

// rowOfRun returns the row of the last run whose number is at most ord, or 0. It halves
// the rows until it is found.
func (tx *Tx) rowOfRun(ord int64) (found int64, err error) {
	last := func(upTo int64) (row, number int64, err error) {
		err = tx.query(func(r *sqlite.Stmt) error {
			row, number = r.ColumnInt64(0), r.ColumnInt64(1)
			return nil
		}, lastRunUpTo, upTo)
		return row, number, err
	}
	high, number, err := last(math.MaxInt64)
	if err != nil || number <= ord {
		return high, err
	}
	for low := int64(1); low < high; {
		middle := low + (high-low)/2
		row, number, err := last(middle)
		if err != nil {
			return 0, err
		}
		if number <= ord {
			found, low = row, middle+1
		} else {
			high = row
		}
	}
	return found, nil
}

// RunsAfter lists at most limit runs of a cell, or of all with "", whose number is
// greater than after, oldest first.
func (tx *Tx) RunsAfter(cellID string, after int64, limit int) ([]Run, error) {
	if cellID == "" {
		row, err := tx.rowOfRun(after)
		if err != nil {
			return nil, err
		}
		return all(tx, scanRun, runsAfter, row, limit)
	}
	return all(tx, scanRun, cellRunsAfter, cellID, after, limit)
}

// RunsBefore lists at most limit runs before the one with the given number, of one
// cell or of all with "", the newest first.
func (tx *Tx) RunsBefore(cellID string, before int64, limit int) ([]Run, error) {
	if cellID == "" {
		row, err := tx.rowOfRun(before - 1)
		if err != nil {
			return nil, err
		}
		return all(tx, scanRun, runsBefore, row, limit)
	}
	return all(tx, scanRun, cellRunsBefore, cellID, before, limit)
}

// maskingRuns finds the few documents that may have the field without decoding the
// others: in a string its quotes would be escaped.
const maskingRuns = "SELECT " + runColumns + ` FROM runs WHERE cell_id=? AND ord>? AND instr(doc,'"control":')>0 ORDER BY ord`

// MaskingRuns lists the runs of a cell whose number is greater than after and that
// masked control files, oldest first.
func (tx *Tx) MaskingRuns(cellID string, after int64) ([]Run, error) {
	runs, err := all(tx, scanRun, maskingRuns, cellID, after)
	return slices.DeleteFunc(runs, func(r Run) bool { return r.Control == nil }), err
}

// Each statement is a file, which takes at least a block.
const evidenceBytes = `SELECT 4096*(SELECT count(*) FROM statements WHERE cell_id=?1)+coalesce((SELECT
	sum(octet_length(doc)+coalesce(json_extract(doc,'$.output_bytes'),0)+coalesce(json_extract(doc,'$.event_bytes'),0)
		+coalesce(json_extract(doc,'$.policy_bytes'),0)) FROM runs WHERE cell_id=?1),0)
	+coalesce((SELECT octet_length(doc)+coalesce(json_extract(doc,'$.policy_bytes'),0) FROM cells WHERE id=?1),0)`

// EvidenceBytes returns the space of the record of a cell, of its statements, and of the
// output, the events, the policies and the records that are kept of its runs.
func (tx *Tx) EvidenceBytes(cellID string) (n int64, err error) {
	err = tx.query(func(r *sqlite.Stmt) error {
		n = r.ColumnInt64(0)
		return nil
	}, evidenceBytes, cellID)
	return n, err
}

const settledUpTo = `SELECT coalesce(
	(SELECT min(ord)-1 FROM runs INDEXED BY runs_receipt WHERE receipt_id='' AND cell_id=?1),
	(SELECT ord FROM runs WHERE cell_id=?1 ORDER BY ord DESC LIMIT 1), 0)`

// SettledUpTo returns a number up to which all runs of a cell have ended: neither
// their documents' facts nor their number will change.
func (tx *Tx) SettledUpTo(cellID string) (ord int64, err error) {
	err = tx.query(func(r *sqlite.Stmt) error {
		ord = r.ColumnInt64(0)
		return nil
	}, settledUpTo, cellID)
	return ord, err
}

// LastRun is the newest finished run of a cell, or of all with "".
func (tx *Tx) LastRun(cellID string) (Run, error) {
	if cellID == "" {
		return one(tx, scanRun, "SELECT "+runColumns+" FROM runs WHERE state='done' ORDER BY rowid DESC LIMIT 1")
	}
	return one(tx, scanRun,
		"SELECT "+runColumns+" FROM runs WHERE cell_id=? AND state='done' ORDER BY ord DESC LIMIT 1", cellID)
}

// DropRun removes a run that never started. Its number is not given again.
func (tx *Tx) DropRun(id string) error {
	const keep = "UPDATE identity SET dropped=max(dropped,coalesce((SELECT ord FROM runs WHERE id=?),0))"
	return errors.Join(tx.exec(keep, id), tx.exec("DELETE FROM runs WHERE id=?", id))
}

// A run without a receipt is unfinished. There are few of them, and only this
// index finds them without reading all runs.
const (
	unfinished = `SELECT EXISTS(SELECT 1 FROM intents WHERE cell_id=?1)
		OR EXISTS(SELECT 1 FROM runs INDEXED BY runs_receipt WHERE receipt_id='' AND cell_id=?1 AND state='running')`
	unfinishedRuns = "SELECT " + runColumns + ` FROM runs INDEXED BY runs_receipt
		WHERE receipt_id='' AND ?1 IN ('', cell_id) AND state='running' ORDER BY ord`
)

// HasUnfinished reports whether a cell has unfinished intents or runs.
func (tx *Tx) HasUnfinished(cellID string) (found bool, err error) {
	err = tx.query(func(r *sqlite.Stmt) error {
		found = r.ColumnBool(0)
		return nil
	}, unfinished, cellID)
	return found, err
}

// UnfinishedRuns lists a cell's runs that have no receipt yet, or those of all
// cells with "".
func (tx *Tx) UnfinishedRuns(cellID string) ([]Run, error) {
	return all(tx, scanRun, unfinishedRuns, cellID)
}

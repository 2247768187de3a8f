package statements

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// The kinds of statements in the index.
const (
	kindRun      = "run"
	KindDecision = "decision"
	KindCell     = "cell"
	kindKey      = "key"
	kindLoss     = "loss"
	kindJournal  = "journal"
	KindLost     = "lost" // a place in the log whose statement cannot be believed
)

// Kinds of states that recovery makes or must distinguish.
const (
	runState = "run" // made by a run
	// PartialState has a chosen part of a run's work.
	PartialState = "partial"
	// UnclaimedState has lost its own statement: nothing says which run made it, and
	// whether that was accepted.
	UnclaimedState = "unclaimed"
)

// SourceLost is the kind of source of a cell whose record is lost.
const SourceLost = "lost"

// DetailLive marks the statement of a state that was captured of a live cell with
// the run that it is of. Such a state does not move the head.
const DetailLive = "live_run"

// DetailMemory is the digest of the memory that was saved with a state.
const DetailMemory = "memory"

// DetailMemoryBytes is the size of that memory.
const DetailMemoryBytes = "memory_bytes"

// DetailAction names the action on a cell whose time was up.
const DetailAction = "action"

// actionRemove is the action that removes the cell.
const actionRemove = "remove"

// Change appends the statement of what happened to a cell, with everything that is
// needed to write its record again.
func (l *Log) Change(tx *store.Tx, c store.Cell, head store.Checkpoint, op receipt.Op, details map[string]string) error {
	if details == nil {
		details = map[string]string{}
	}
	record := cellRecord{
		SourceKind: c.SourceKind, Live: c.Live, Rules: c.Rules, LeftOut: c.LeftOut, Kept: c.Kept, Applied: c.Applied, Policy: c.Policy,
		Pins: c.Pins, Cache: c.Cache, Prefix: c.Prefix, Paused: c.Paused, RemovedAt: c.RemovedAt,
	}
	settings, err := tx.Settings(c.ID)
	if err != nil {
		return err
	}
	if !settings.Empty() {
		record.Settings = &settings
	}
	extra, err := json.Marshal(record)
	if err != nil {
		return err
	}
	details["record"] = string(extra)
	details["checkpoint_kind"] = head.Kind
	details["own_bytes"] = strconv.FormatInt(head.OwnBytes, 10)
	name := c.Name
	if name == "" {
		name = c.LastName
	}
	return l.append(tx, store.Statement{ID: store.NewID(changePrefix(op)), Kind: KindCell, CellID: c.ID}, name, &receipt.Change{
		Op: op, Of: cellStatement(c, name), Checkpoint: Checkpoint(head, details["name"]), Details: details,
	})
}

// changePrefix returns how the id of a change begins in the index: gc looks for
// restores, which are few, among all changes.
func changePrefix(op receipt.Op) string {
	if op == receipt.OpRestore {
		return "restore"
	}
	return "op"
}

// Restores lists the statements of restores.
func Restores(tx *store.Tx) ([]store.Statement, error) {
	return tx.StatementsCalled(changePrefix(receipt.OpRestore))
}

// cellRecord is the part of a cell's record that the statement format has no
// fields for.
type cellRecord struct {
	SourceKind string          `json:"source_kind"`
	Live       string          `json:"live,omitempty"`
	Rules      store.Rules     `json:"rules"`
	LeftOut    []store.LeftOut `json:"left_out,omitempty"`
	Kept       []string        `json:"kept,omitempty"`
	Applied    string          `json:"applied"`
	Policy     string          `json:"policy,omitempty"`
	Pins       []string        `json:"pins,omitempty"`
	Cache      string          `json:"cache,omitempty"`
	Prefix     string          `json:"prefix,omitempty"`
	Settings   *store.Settings `json:"settings,omitempty"`
	Paused     *store.Pause    `json:"paused,omitempty"`
	RemovedAt  time.Time       `json:"removed_at,omitzero"`
}

func cellStatement(c store.Cell, name string) receipt.Cell {
	out := receipt.Cell{
		ID: c.ID, Name: name, Source: c.Source, Backend: c.Backend, BackendReason: c.BackendReason, Runtime: c.Runtime,
		MountAt: c.MountAt, ReadOnly: c.ReadOnly, LeftOutRules: c.Rules.Extra, Live: c.Live != "",
	}
	if c.ForkedCell != "" {
		out.ForkedFrom = &receipt.Origin{CellID: c.ForkedCell, Checkpoint: c.ForkedCheckpoint}
	}
	return out
}

// Checkpoint returns a state as statements describe it. The name may be empty.
func Checkpoint(c store.Checkpoint, name string) receipt.Checkpoint {
	areas := map[string]receipt.Roots{}
	for area, r := range c.Areas {
		areas[area] = receipt.Roots{Root: r.Root, MetaRoot: r.MetaRoot}
	}
	return receipt.Checkpoint{
		ID: c.ID, Parent: c.Parent, Layer: c.Layer, Name: name, Root: c.Root(), MetaRoot: c.MetaRoot(), Areas: areas,
	}
}

// StateDetail describes the state that the source now corresponds to, for the
// details of a statement about another state.
func StateDetail(c store.Checkpoint) (string, error) {
	data, err := json.Marshal(detailedState{Checkpoint(c, ""), c.Kind})
	return string(data), err
}

type detailedState struct {
	Checkpoint receipt.Checkpoint `json:"checkpoint"`
	Kind       string             `json:"kind"`
}

// Ref returns a state as statements refer to it.
func Ref(c store.Checkpoint) receipt.CheckpointRef {
	return receipt.CheckpointRef{ID: c.ID, Root: c.Root(), MetaRoot: c.MetaRoot()}
}

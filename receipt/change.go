package receipt

import (
	"errors"
	"fmt"
)

// Op is what happened to a cell.
type Op string

// The operations.
const (
	OpInit       Op = "init"
	OpFork       Op = "fork"
	OpRename     Op = "rename"
	OpRemove     Op = "remove"
	OpCheckpoint Op = "checkpoint"
	OpRefresh    Op = "refresh"
	// OpRestore moves the head to a checkpoint without deciding about a run.
	OpRestore Op = "restore"
	OpApply   Op = "apply"
	OpUndo    Op = "undo"
	OpRecover Op = "recover"
	OpSquash  Op = "squash"
	// OpPolicy changes the policy of a cell; its state stays.
	OpPolicy Op = "policy"
	// OpAccept accepts states that no run ended with; the head stays.
	OpAccept Op = "accept"
	// OpPromote adds to a shared cache what a cell has in its own.
	OpPromote Op = "promote"
	// OpSettings changes labels or time limits of a cell; its state stays.
	OpSettings Op = "settings"
	// OpExpire stops, pauses or removes a cell whose time is up.
	OpExpire Op = "expire"
	// OpPublish puts accepted work on a branch of a repository; the state stays.
	OpPublish Op = "publish"
	// OpPause pauses a cell without a process, OpResume makes it live again, and OpStop
	// ends it; its state stays.
	OpPause  Op = "pause"
	OpResume Op = "resume"
	OpStop   Op = "stop"
	// OpUndelete brings a removed cell back as it was.
	OpUndelete Op = "undelete"
)

// Change is a change of a cell that is neither a run nor a decision. It holds
// the cell and its head in full, so that both can be recorded again from the
// statement alone.
type Change struct {
	Link `json:"link"`

	Op Op `json:"op"`
	// Of is the cell after the change.
	Of Cell `json:"cell"`
	// Checkpoint is the cell's head after the change.
	Checkpoint Checkpoint `json:"checkpoint"`
	// Names lists every cell that one fork made; each has its own statement.
	Names []string `json:"names,omitempty"`
	// Details are further facts about the operation, by name.
	Details map[string]string `json:"details,omitempty"`
}

// Cell describes a cell.
type Cell struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Source is the directory or archive that the cell was made from.
	Source        string   `json:"source"`
	Backend       string   `json:"backend"`
	BackendReason string   `json:"backend_reason,omitempty"`
	Runtime       string   `json:"runtime"`
	MountAt       string   `json:"mount_at"`
	ReadOnly      []string `json:"read_only,omitempty"`
	// LeftOutRules are the patterns of paths that the import left out.
	LeftOutRules []string `json:"left_out_rules,omitempty"`
	// Live: the workspace is a real directory and not made of layers.
	Live bool `json:"live"`
	// ForkedFrom is absent unless the cell is a fork.
	ForkedFrom *Origin `json:"forked_from,omitempty"`
}

// Origin is where a fork started.
type Origin struct {
	CellID     string `json:"cell_id"`
	Checkpoint string `json:"checkpoint"`
}

// PredicateType is [TypeCell].
func (*Change) PredicateType() string { return TypeCell }

// ID is the id of the cell.
func (c *Change) ID() string { return c.CellID }

func (c *Change) subjects() []Subject { return rootSubjects(c.Checkpoint) }

func (c *Change) check() error {
	if err := c.Link.check(true); err != nil {
		return err
	}
	switch c.Op {
	case OpInit, OpFork, OpRename, OpRemove, OpCheckpoint, OpRefresh, OpRestore, OpApply, OpUndo, OpRecover, OpSquash, OpPolicy, OpAccept, OpPromote, OpSettings, OpExpire, OpPublish,
		OpPause, OpResume, OpStop, OpUndelete:
	default:
		return fmt.Errorf("unknown op %q", c.Op)
	}
	if c.Of.ID != c.CellID || c.Of.Name != c.Link.Cell {
		return errors.New("the cell is not the one of the link")
	}
	if c.Op == OpFork && c.Of.ForkedFrom == nil {
		return errors.New("a fork without forked_from")
	}
	if from := c.Of.ForkedFrom; from != nil {
		if !isToken(from.CellID) {
			return errors.New("forked_from: bad cell_id")
		}
		if err := checkID("chk", from.Checkpoint); err != nil {
			return fmt.Errorf("forked_from: %w", err)
		}
	}
	if err := c.Checkpoint.check(); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

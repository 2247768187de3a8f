package engine

import (
	"context"
	"errors"
	"io/fs"

	"github.com/forkcell/forkcell/internal/engine/inventory"
	"github.com/forkcell/forkcell/internal/storage/moments"
)

// PausedCell returns what a cell that is paused on disk will use when it is resumed; nil
// if it is not paused so.
func (e *Engine) PausedCell(_ context.Context, name string) (*SavedCell, error) {
	c, err := e.FindCell(name)
	if err != nil {
		return nil, err
	}
	p := c.Paused
	if p == nil {
		runs, err := e.UnfinishedRuns(c)
		if _, live := e.Supervisor(c); err != nil || live || len(runs) == 0 {
			return nil, err
		}
		p = runs[len(runs)-1].Pause // its process died while it was paused
	}
	if p == nil {
		return nil, nil //nolint:nilnil // as documented
	}
	saved := &SavedCell{LiveCell: inventory.LiveCell{Cell: c.Name, Actor: e.Caller.Actor(), Memory: p.Memory, CPUs: p.CPUsMilli}, Disk: e.PausedBytes(c)}
	var run savedRun
	_, err = run.read(e.Images().Image(moments.PausedImage(p.RunID)))
	if errors.Is(err, moments.ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
		return saved, nil // then no option is known, and none is given
	}
	if err != nil {
		return nil, pausedMemoryError(c, err)
	}
	saved.Loose = looseOptions(run.Options)
	return saved, nil
}

// SavedCell is what a branch of a checkpoint with memory, or a cell that is paused on
// disk, will use, at most.
type SavedCell struct {
	inventory.LiveCell

	// CheckpointID is the checkpoint that a reference named; "" of a paused cell.
	CheckpointID string
	// Disk is the space that the memory of a paused cell has on disk.
	Disk int64
	// Loose are the options of the run that a caller needs the right to administrate for.
	Loose []string
}

// SavedCell returns what each branch of a checkpoint with memory will use.
func (e *Engine) SavedCell(_ context.Context, name, checkpoint string) (*SavedCell, error) {
	c, err := e.FindCell(name)
	if err != nil {
		return nil, err
	}
	m, err := e.savedMoment(c, checkpoint)
	if err != nil {
		return nil, err
	}
	o, limits := m.Options, m.policy.Limits
	return &SavedCell{
		LiveCell: inventory.LiveCell{
			Cell: c.Name, Actor: e.Caller.Actor(), Memory: narrower(o.Memory, limits.Memory), CPUs: narrower(o.CPUs, limits.CPUs),
		},
		CheckpointID: m.at.ID, Loose: looseOptions(o),
	}, nil
}

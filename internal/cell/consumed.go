package cell

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/home"
	"github.com/forkcell/forkcell/internal/memory"
	"github.com/forkcell/forkcell/internal/store"
)

// LiveCell is a live cell, who started it, and its limits; 0 is none.
type LiveCell struct {
	Cell, Actor string
	Memory      int64 // bytes
	CPUs        int64 // thousandths of a processor
}

// LiveCells returns the live cells of the home, whoever started them.
func (e *Engine) LiveCells(context.Context) (live []LiveCell, err error) {
	if e.Store == nil {
		return nil, nil
	}
	err = e.Store.View(func(tx *store.Tx) error {
		cells, err := tx.Cells(false)
		if err != nil {
			return err
		}
		for _, c := range cells {
			if _, is := e.Supervisor(c); !is {
				continue
			}
			runs, err := tx.UnfinishedRuns(c.ID)
			if err != nil {
				return err
			}
			for _, r := range runs {
				live = append(live, LiveCell{Cell: c.Name, Actor: r.Actor, Memory: r.Memory, CPUs: r.CPUsMilli})
			}
		}
		return nil
	})
	return live, err
}

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
	saved := &SavedCell{LiveCell: LiveCell{Cell: c.Name, Actor: e.Caller.Actor(), Memory: p.Memory, CPUs: p.CPUsMilli}}
	if saved.Disk, err = e.pausedBytes(c); err != nil {
		return nil, err
	}
	var run savedRun
	data, err := e.Images().Image(memory.Paused(p.RunID)).Read(memory.Run)
	if errors.Is(err, memory.ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
		return saved, nil // then no option is known, and none is given
	}
	if err == nil {
		err = json.Unmarshal(data, &run)
	}
	if err != nil {
		return nil, pausedMemoryError(c, err)
	}
	saved.Loose = loose(run.Options)
	return saved, nil
}

// SavedCell is what a branch of a checkpoint with memory, or a cell that is paused on
// disk, will use, at most.
type SavedCell struct {
	LiveCell

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
		LiveCell: LiveCell{
			Cell: c.Name, Actor: e.Caller.Actor(), Memory: narrower(o.Memory, limits.Memory), CPUs: narrower(o.CPUs, limits.CPUs),
		},
		CheckpointID: m.at.ID, Loose: loose(o),
	}, nil
}

// loose returns the options that loosen a control, or show something of the operator's
// host.
func loose(o api.RunOptions) (names []string) {
	for _, option := range []struct {
		name string
		set  bool
	}{
		{"--allow-degraded", o.AllowDegraded},
		{"--as-root", o.AsRoot},
		{"--root", o.Root != "" && o.Root != "host"},
		{"--ro", len(o.ReadOnly) > 0},
		{"--grant", len(o.Grants.Paths)+len(o.Grants.Env) > 0},
		{"--resolve", len(o.Network.Resolve) > 0},
		{"--ca", len(o.Network.CA) > 0},
		{"a login of the operator", len(o.Network.Logins) > 0},
	} {
		if option.set {
			names = append(names, option.name)
		}
	}
	return names
}

// OwnBytes returns the disk space of the states of all cells that the caller may know
// of, and of the memory of those that are paused. Sizes of states are those that were recorded when the states were sealed, and are added up
// again only for cells that have changed.
func (e *Engine) OwnBytes(context.Context) (total int64, err error) {
	if e.Store == nil {
		return 0, nil
	}
	err = e.Store.View(func(tx *store.Tx) error {
		cells, err := home.OrdinaryCells(tx)
		if err != nil {
			return err
		}
		for _, c := range cells {
			if !e.Caller.MaySee(c.Name) {
				continue
			}
			history, err := tx.History(c.ID)
			if err != nil {
				return err
			}
			own, err := e.ownBytes(tx, c, history)
			if err != nil {
				return err
			}
			paused, err := e.pausedBytes(c)
			if err != nil {
				return err
			}
			total += own + paused
		}
		return nil
	})
	return total, err
}

// pausedBytes returns the disk space of what a cell is paused with, if it is. That of a
// cell that is being resumed is about to be freed.
func (e *Engine) pausedBytes(c store.Cell) (int64, error) {
	if c.Paused == nil {
		return 0, nil
	}
	if _, resumed := e.Supervisor(c); resumed {
		return 0, nil
	}
	n, err := e.Images().Image(memory.Paused(c.Paused.RunID)).Size()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // it has just been resumed, or is lost
	}
	return n, err
}

// PauseWrites reports whether a pause of a live cell writes the memory of its processes
// to the disk.
func (e *Engine) PauseWrites(_ context.Context, name string) (bool, error) {
	c, err := e.FindCell(name)
	if err != nil {
		return false, err
	}
	runs, err := e.UnfinishedRuns(c)
	for _, r := range runs {
		if r.Runtime != "" && r.Runtime != api.RuntimeNative {
			return true, err
		}
	}
	return false, err
}

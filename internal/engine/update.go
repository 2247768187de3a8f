package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/inventory"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// Update changes the name and the settings of a cell, all or nothing, and returns the
// cell as it is then. Settings can change while a process works on the cell; the name
// cannot.
func (e *Engine) Update(ctx context.Context, req api.UpdateRequest) (*api.CellInfo, error) {
	c, err := e.FindCell(req.Cell)
	if err != nil {
		return nil, err
	}
	if req.Name != "" && req.Name != req.Cell {
		err = e.updateHeld(ctx, req)
	} else {
		req.Name = ""
		err = e.updateShared(c.ID, req)
	}
	if err != nil {
		return nil, err
	}
	return e.Describe(c.ID)
}

// updateHeld changes a cell that no other process works on.
func (e *Engine) updateHeld(ctx context.Context, req api.UpdateRequest) error {
	if err := home.CheckName("cell", req.Name); err != nil {
		return err
	}
	s, err := e.hold(ctx, req.Cell, "rename", 0)
	if err != nil {
		return err
	}
	defer s.Release()
	return e.update(s.Record.ID, req)
}

// updateShared changes a cell that another process may work on.
func (e *Engine) updateShared(id string, req api.UpdateRequest) error {
	if err := e.Store.MakeRoom(); err != nil {
		return err
	}
	home, err := e.Store.LockHome(false)
	if err != nil {
		return err
	}
	defer home.Unlock()
	return e.update(id, req)
}

func (e *Engine) update(id string, req api.UpdateRequest) error {
	return e.Store.Update(func(tx *store.Tx) error {
		c, err := tx.CellByID(id)
		if err != nil {
			return err
		}
		if c.Name != req.Cell {
			return api.Missing("cell", req.Cell, "it was renamed or removed meanwhile")
		}
		head, err := tx.Checkpoint(c.Head)
		if err != nil {
			return err
		}
		if err := home.CheckRevision(tx, c, e.Caller.Expect); err != nil {
			return err
		}
		if err := e.rename(tx, &c, head, req.Name); err != nil {
			return err
		}
		return e.changeSettings(tx, c, head, req)
	})
}

// rename gives a cell another name, unless it is "". The caller holds the cell.
func (e *Engine) rename(tx *store.Tx, c *store.Cell, head store.Checkpoint, to string) error {
	if to == "" {
		return nil
	}
	from := c.Name
	c.Name, c.LastName = to, to
	err := tx.PutCell(*c)
	if errors.Is(err, store.ErrTaken) {
		return api.Refusef(api.CodeNameTaken, "choose another name", "cell %s exists already", to)
	}
	if err != nil {
		return err
	}
	return e.Evidence.Change(tx, *c, head, receipt.OpRename, map[string]string{"from": from})
}

// changeSettings records changed settings, and makes no statement if they are as
// before.
func (e *Engine) changeSettings(tx *store.Tx, c store.Cell, head store.Checkpoint, req api.UpdateRequest) error {
	before, err := tx.Settings(c.ID)
	if err != nil {
		return err
	}
	after := withChanges(before, req)
	if err := checkSettings(after); err != nil {
		return err
	}
	what := settingChanges(before, after)
	if len(what) == 0 {
		return nil
	}
	after.SetAt = e.Now().UTC()
	if err := tx.PutSettings(c.ID, after); err != nil {
		return err
	}
	return e.Evidence.Change(tx, c, head, receipt.OpSettings, map[string]string{"reason": strings.Join(what, ", ")})
}

func withChanges(s store.Settings, req api.UpdateRequest) store.Settings {
	s = s.Clone()
	if req.DropLabels || s.Labels == nil {
		s.Labels = map[string]string{}
	}
	for key, value := range req.Labels {
		if value == nil {
			delete(s.Labels, key)
		} else {
			s.Labels[key] = *value
		}
	}
	if req.TTL != nil && *req.TTL != api.Duration(s.TTL) {
		s.TTL, s.Expired = time.Duration(*req.TTL), false
	}
	if req.IdleTimeout != nil {
		s.IdleTimeout = time.Duration(*req.IdleTimeout)
	}
	if req.OnTimeout != nil {
		s.OnTimeout = *req.OnTimeout
	}
	return s
}

// settingChanges lists what differs, for people.
func settingChanges(before, after store.Settings) (list []string) {
	for _, key := range slices.Sorted(maps.Keys(after.Labels)) {
		if old, ok := before.Labels[key]; !ok || old != after.Labels[key] {
			list = append(list, "label "+key+"="+after.Labels[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before.Labels)) {
		if _, ok := after.Labels[key]; !ok {
			list = append(list, "no label "+key)
		}
	}
	limit := func(name string, before, after time.Duration) {
		switch {
		case before == after:
		case after == 0:
			list = append(list, "no "+name)
		default:
			list = append(list, name+" "+after.String())
		}
	}
	limit("ttl", before.TTL, after.TTL)
	limit("idle timeout", before.IdleTimeout, after.IdleTimeout)
	if before.OnTimeout != after.OnTimeout {
		list = append(list, "on timeout "+inventory.OnTimeout(after))
	}
	return list
}

package cell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// The bounds of settings.
const (
	maxLabels     = 64
	maxLabelKey   = 63
	maxLabelValue = 255
	minTimeLimit  = time.Second
	maxTimeLimit  = 10 * 365 * 24 * time.Hour
)

// newSettings checks the settings of a new cell, and adds them to those that it
// inherits.
func newSettings(inherited map[string]string, s api.Settings) (store.Settings, error) {
	labels := maps.Clone(inherited)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, s.Labels)
	out := store.Settings{
		Labels: labels, TTL: time.Duration(s.TTL), IdleTimeout: time.Duration(s.IdleTimeout), OnTimeout: s.OnTimeout,
	}
	return out, checkSettings(out)
}

func checkSettings(s store.Settings) error {
	if len(s.Labels) > maxLabels {
		return api.Usagef("", "a cell has at most %d labels", maxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		if err := checkLabel(key, s.Labels[key]); err != nil {
			return err
		}
	}
	if err := checkTimeLimit("ttl", s.TTL); err != nil {
		return err
	}
	if err := checkTimeLimit("idle_timeout", s.IdleTimeout); err != nil {
		return err
	}
	switch s.OnTimeout {
	case "", api.OnTimeoutStop, api.OnTimeoutPause, api.OnTimeoutRemove:
		return nil
	}
	return api.Usagef("one of stop, pause, remove", "unknown on_timeout %s", quote.Arg(s.OnTimeout))
}

func checkLabel(key, value string) error {
	if !isLabelKey(key) {
		return api.Usagef(fmt.Sprintf("use 1 to %d of a-z A-Z 0-9 . _ - / and begin and end with a letter or digit", maxLabelKey),
			"bad label key %s", quote.Arg(key))
	}
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	if len(value) > maxLabelValue || !utf8.ValidString(value) || strings.IndexFunc(value, hidden) >= 0 {
		return api.Usagef(fmt.Sprintf("use at most %d bytes of printable text", maxLabelValue), "bad value of label %s", key)
	}
	return nil
}

func isLabelKey(key string) bool {
	if key == "" || len(key) > maxLabelKey {
		return false
	}
	for i := range len(key) {
		ch := key[i]
		plain := ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z' || ch >= '0' && ch <= '9'
		inside := i > 0 && i < len(key)-1 && strings.IndexByte("._-/", ch) >= 0
		if !plain && !inside {
			return false
		}
	}
	return true
}

func checkTimeLimit(name string, d time.Duration) error {
	if d != 0 && (d < minTimeLimit || d > maxTimeLimit) {
		return api.Usagef("", "%s must be from %s to %s", name, minTimeLimit, maxTimeLimit)
	}
	return nil
}

// Update changes the name and the settings of a cell, all or nothing, and returns the
// cell as it is then. Settings can change while a process works on the cell; the name
// cannot.
func (e *Engine) Update(ctx context.Context, req api.UpdateRequest) (*api.CellInfo, error) {
	c, err := e.findCell(req.Cell)
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
	left, err := e.abandonedIn(c.ID)
	if err != nil {
		return nil, err
	}
	var info api.CellInfo
	err = e.store.View(func(tx *store.Tx) error {
		if c, err = tx.CellByID(c.ID); err == nil {
			info, err = e.info(tx, c, left)
		}
		return err
	})
	return &info, err
}

// updateHeld changes a cell that no other process works on.
func (e *Engine) updateHeld(ctx context.Context, req api.UpdateRequest) error {
	if err := checkName("cell", req.Name); err != nil {
		return err
	}
	s, err := e.hold(ctx, req.Cell, "rename", 0)
	if err != nil {
		return err
	}
	defer s.release()
	return e.update(s.cell.ID, req)
}

// updateShared changes a cell that another process may work on.
func (e *Engine) updateShared(id string, req api.UpdateRequest) error {
	if err := e.store.MakeRoom(); err != nil {
		return err
	}
	home, err := e.store.LockHome(false)
	if err != nil {
		return err
	}
	defer home.Unlock()
	return e.update(id, req)
}

func (e *Engine) update(id string, req api.UpdateRequest) error {
	return e.store.Update(func(tx *store.Tx) error {
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
	return e.log.Change(tx, *c, head, receipt.OpRename, map[string]string{"from": from})
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
	after.SetAt = e.now().UTC()
	if err := tx.PutSettings(c.ID, after); err != nil {
		return err
	}
	return e.log.Change(tx, c, head, receipt.OpSettings, map[string]string{"reason": strings.Join(what, ", ")})
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
		list = append(list, "on timeout "+onTimeout(after))
	}
	return list
}

func onTimeout(s store.Settings) string { return cmp.Or(s.OnTimeout, api.OnTimeoutStop) }

// showSettings adds the settings of a cell to its description.
func showSettings(tx *store.Tx, info *api.CellInfo) error {
	s, err := tx.Settings(info.CellID)
	info.Labels, info.OnTimeout = map[string]string{}, onTimeout(s)
	maps.Copy(info.Labels, s.Labels)
	info.TTL, info.IdleTimeout = api.Duration(s.TTL), api.Duration(s.IdleTimeout)
	return err
}

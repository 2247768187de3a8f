package store

import (
	"errors"
	"maps"
	"time"

	"zombiezen.com/go/sqlite"
)

// Settings are the part of a cell that may change at any time, also while a process
// holds the cell's lock. So they have a table of their own: that process writes the
// rest of the cell from its own copy.
type Settings struct {
	Labels map[string]string `json:"labels,omitempty"`
	// TTL counts from the creation of the cell, IdleTimeout from its last use. 0 is
	// none.
	TTL         time.Duration `json:"ttl_ns,omitempty"`
	IdleTimeout time.Duration `json:"idle_timeout_ns,omitempty"`
	OnTimeout   string        `json:"on_timeout,omitempty"` // stop, pause or remove; "" is stop
	// Expired reports that the end of the TTL was carried out: the cell was stopped
	// or paused.
	Expired bool      `json:"expired,omitempty"`
	SetAt   time.Time `json:"set_at,omitzero"`
}

// Empty reports whether nothing is set.
func (s Settings) Empty() bool {
	return len(s.Labels) == 0 && s.TTL == 0 && s.IdleTimeout == 0 && s.OnTimeout == ""
}

// Clone returns settings that share nothing with the original.
func (s Settings) Clone() Settings {
	s.Labels = maps.Clone(s.Labels)
	return s
}

// PutSettings replaces the settings of a cell.
func (tx *Tx) PutSettings(cellID string, s Settings) error {
	if s.Empty() {
		return tx.exec("DELETE FROM settings WHERE cell_id=?", cellID)
	}
	doc, err := encode(s)
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO settings(cell_id,doc) VALUES(?,?)
		ON CONFLICT(cell_id) DO UPDATE SET doc=excluded.doc`, cellID, doc)
}

// Settings returns the settings of a cell.
func (tx *Tx) Settings(cellID string) (Settings, error) {
	found, err := one(tx, scanSettings, "SELECT cell_id, doc FROM settings WHERE cell_id=?", cellID)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return found.Settings, err
}

// presentSettings begins with the cells: those that were removed keep their
// settings, and may be many.
const presentSettings = `SELECT s.cell_id, s.doc FROM cells c CROSS JOIN settings s ON s.cell_id=c.id WHERE c.name IS NOT NULL`

// AllSettings returns the settings of the cells that have some, by the cell's id.
// Removed cells are left out.
func (tx *Tx) AllSettings() (map[string]Settings, error) {
	list, err := all(tx, scanSettings, presentSettings)
	found := make(map[string]Settings, len(list))
	for _, s := range list {
		found[s.cell] = s.Settings
	}
	return found, err
}

type settingsOfCell struct {
	cell string
	Settings
}

func scanSettings(r *sqlite.Stmt) (settingsOfCell, error) {
	s := settingsOfCell{cell: r.ColumnText(0)}
	err := decode(r.ColumnText(1), &s.Settings)
	return s, err
}

// Touch records when cells were used last, by their ids. Callers record it now and
// then, not at every use.
func (tx *Tx) Touch(used map[string]time.Time) error {
	for id, at := range used {
		err := tx.exec(`INSERT INTO touched(cell_id,at) VALUES(?,?)
			ON CONFLICT(cell_id) DO UPDATE SET at=excluded.at`, id, at.UnixMicro())
		if err != nil {
			return err
		}
	}
	return nil
}

// LastUsed returns when a cell was used last, as far as Touch has recorded it; else
// the zero time.
func (tx *Tx) LastUsed(cellID string) (at time.Time, err error) {
	err = tx.query(func(r *sqlite.Stmt) error {
		at = time.UnixMicro(r.ColumnInt64(0)).UTC()
		return nil
	}, "SELECT at FROM touched WHERE cell_id=?", cellID)
	return at, err
}

// ForgetTouches drops what Touch has recorded about removed cells.
func (tx *Tx) ForgetTouches() error {
	return tx.exec("DELETE FROM touched WHERE cell_id IN (SELECT id FROM cells WHERE name IS NULL)")
}

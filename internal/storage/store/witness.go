package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"zombiezen.com/go/sqlite"
)

// KeptRecord is a record that only one of log and database has, or a layer that
// neither has. It is not freed before the operator agrees.
type KeptRecord struct {
	Kind string // checkpoint or layer
	ID   string
}

// Witness is the content of a database.
type Witness struct {
	Statements  []Statement
	Cells       []Cell
	Checkpoints []Checkpoint
	Labels      []Label
	Runs        []Run
	Applies     []Apply
	Intents     []Intent
	Kept        []KeptRecord
}

// ReadAside reads a database that ResetDatabase set aside. If it is empty, a
// recovery that died left it; then the database that this recovery had set
// aside is read.
func (s *Store) ReadAside(path string) (*Witness, error) {
	empty := false
	if info, err := os.Stat(path); err == nil {
		empty = info.Size() == 0
	}
	var w *Witness
	var err error
	if !empty {
		if w, err = s.readAside(path); err != nil || len(w.Statements) > 0 {
			return w, err
		}
	}
	earlier, err := s.asideBefore(path)
	if err != nil || earlier == "" {
		return &Witness{}, err
	}
	return s.readAside(earlier)
}

// asideBefore finds the database that was set aside last before another one, or
// "". The names are in the order of time.
func (s *Store) asideBefore(path string) (string, error) {
	names, err := s.dir.Names()
	if err != nil {
		return "", err
	}
	last := ""
	for _, name := range names {
		if strings.HasPrefix(name, asidePrefix) && !strings.Contains(name, logSuffix) && !strings.Contains(name, "-shm") &&
			name < filepath.Base(path) && name > last {
			last = name
		}
	}
	if last == "" {
		return "", nil
	}
	return s.sub(last), nil
}

func (s *Store) readAside(path string) (w *Witness, err error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenWAL)
	if err != nil {
		return nil, databaseError(err)
	}
	aside := &Store{path: s.path, home: s.home, dir: s.dir, conn: conn}
	defer func() { err = errors.Join(err, conn.Close()) }()
	w = &Witness{}
	if err := aside.View(w.read); err != nil {
		return nil, err
	}
	// Earlier versions had no such table.
	if version, err := aside.userVersion(); err != nil || version < keptVersion {
		return w, err
	}
	return w, aside.View(func(tx *Tx) (err error) {
		w.Kept, err = tx.KeptRecords()
		return err
	})
}

// keptVersion is the first version of the database that keeps things from gc.
const keptVersion = 3

func (w *Witness) read(tx *Tx) (err error) {
	if w.Statements, err = tx.Statements(""); err != nil {
		return err
	}
	if w.Cells, err = tx.Cells(true); err != nil {
		return err
	}
	if w.Checkpoints, err = tx.Checkpoints(""); err != nil {
		return err
	}
	if w.Labels, err = tx.namedCheckpoints(); err != nil {
		return err
	}
	if w.Runs, err = tx.Runs(""); err != nil {
		return err
	}
	if w.Applies, err = tx.Applies(); err != nil {
		return err
	}
	w.Intents, err = tx.Intents("")
	return err
}

// Keep protects a record from gc.
func (tx *Tx) Keep(k KeptRecord) error {
	return tx.exec("INSERT OR IGNORE INTO unconfirmed(kind,id) VALUES(?,?)", k.Kind, k.ID)
}

// KeptRecords lists the records that are protected from gc.
func (tx *Tx) KeptRecords() ([]KeptRecord, error) {
	return all(tx, func(r *sqlite.Stmt) (KeptRecord, error) {
		return KeptRecord{r.ColumnText(0), r.ColumnText(1)}, nil
	}, "SELECT kind, id FROM unconfirmed ORDER BY kind, id")
}

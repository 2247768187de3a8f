package store

import (
	"sync"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Version identifies a state of the database. While it stays the same, no process has
// committed anything. The zero Version means that the state is not known.
type Version struct {
	of     *watch
	number int64
}

// Known reports whether the version identifies a state.
func (v Version) Known() bool { return v.of != nil }

// watch is a connection that only asks whether others have committed: SQLite counts
// the commits of all connections but the own one.
type watch struct {
	mu   sync.Mutex
	conn *sqlite.Conn
}

// Version returns the present version of the database. What was read of a view that
// began after the call is up to date as long as Version returns the same.
func (s *Store) Version() Version {
	if s.readers == nil {
		return Version{}
	}
	w := &s.readers.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil {
		conn, err := s.readers.open()
		if err != nil {
			return Version{}
		}
		w.conn = conn
	}
	v := Version{of: w}
	err := sqlitex.Execute(w.conn, "PRAGMA data_version", &sqlitex.ExecOptions{ResultFunc: func(r *sqlite.Stmt) error {
		v.number = r.ColumnInt64(0)
		return nil
	}})
	if err != nil {
		return Version{}
	}
	return v
}

func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		_ = w.conn.Close() // nothing was written
		w.conn = nil
	}
}

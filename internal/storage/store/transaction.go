package store

import (
	"errors"
	"os"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	// busyTimeout is how long a connection waits for other processes.
	busyTimeout = 30 * time.Second
	// longLog is the size at which the write-ahead log is copied back to the
	// database: 64 pages with their headers.
	longLog = 64 * (4096 + 24)
)

// Tx is one transaction: all of its changes are made, or none.
type Tx struct {
	s        *Store
	conn     *sqlite.Conn
	appended []int64 // numbers of the statements that it adds to the log

	// What it has read of lineages and runs: a command asks for those of a cell several
	// times. A change forgets them.
	lines     map[string][]Checkpoint
	ancestors map[string][]Ancestor
	runs      map[string]Run
}

func (s *Store) transact(fn func(*Tx) error) (err error) {
	end, err := sqlitex.ImmediateTransaction(s.conn)
	if err != nil {
		return databaseError(err)
	}
	defer func() {
		end(&err)
		if err == nil && !s.stays {
			s.cutLog()
		}
		err = databaseError(err)
	}()
	return fn(&Tx{s: s, conn: s.conn})
}

// cutLog copies the write-ahead log back to the database, once it is long, and cuts it
// off. The first process that opens the database next reads all of what is left.
// SQLite's own checkpoint leaves the cutting to the next commit of the same process,
// which most commands do not have: their log would grow for ever. A process that stays
// has it, and cuts the log at its end only: to cut a file takes longer than a commit.
//
// It does not wait. What it cannot do, because others read or the disk is full,
// is left to the next commit: nothing depends on it.
func (s *Store) cutLog() {
	if s.file == nil {
		return // the database is in memory
	}
	log, err := os.Stat(s.sub(databaseName + logSuffix))
	if err != nil || log.Size() <= longLog {
		return
	}
	s.conn.SetBusyTimeout(0)
	defer s.conn.SetBusyTimeout(busyTimeout)
	_ = sqlitex.ExecuteTransient(s.conn, "PRAGMA wal_checkpoint(TRUNCATE)", nil)
}

// Note is Update for records that need not survive a power failure, because
// what they describe does not survive it either: for example, that a process is
// working. Other processes see the record at once, also after this process has
// died.
func (s *Store) Note(fn func(*Tx) error) (err error) {
	if s.readOnly {
		return ErrReadOnly
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := sqlitex.ExecuteTransient(s.conn, "PRAGMA synchronous=NORMAL", nil); err != nil {
		return databaseError(err)
	}
	defer func() {
		err = errors.Join(err, databaseError(sqlitex.ExecuteTransient(s.conn, "PRAGMA synchronous=FULL", nil)))
	}()
	return s.transact(fn)
}

func (tx *Tx) exec(query string, args ...any) error {
	tx.lines, tx.ancestors, tx.runs = nil, nil, nil
	return sqlitex.Execute(tx.conn, query, &sqlitex.ExecOptions{Args: args})
}

func (tx *Tx) query(row func(*sqlite.Stmt) error, query string, args ...any) error {
	return sqlitex.Execute(tx.conn, query, &sqlitex.ExecOptions{Args: args, ResultFunc: func(r *sqlite.Stmt) error {
		tx.s.rows.Add(1)
		return row(r)
	}})
}

// RowsRead returns the number of rows that queries have returned. It shows whether what
// a reader does follows the length of the history.
func (s *Store) RowsRead() int64 { return s.rows.Load() }

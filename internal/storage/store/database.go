package store

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const databaseName = "forkcell.db"

// logSuffix ends the name of SQLite's write-ahead log, beside the database.
const logSuffix = "-wal"

// migrations are applied in order; the database's user_version counts them. New
// ones are only appended.
var migrations = []string{
	`CREATE TABLE cells(
		id TEXT PRIMARY KEY, name TEXT UNIQUE, head TEXT NOT NULL, applied TEXT NOT NULL, doc TEXT NOT NULL) STRICT;
	CREATE TABLE checkpoints(
		id TEXT PRIMARY KEY, cell_id TEXT NOT NULL REFERENCES cells(id), parent TEXT NOT NULL, layer TEXT NOT NULL,
		run_id TEXT NOT NULL, ord INTEGER NOT NULL, freed INTEGER NOT NULL, doc TEXT NOT NULL) STRICT;
	CREATE INDEX checkpoints_cell ON checkpoints(cell_id, ord);
	CREATE INDEX checkpoints_parent ON checkpoints(parent);
	CREATE TABLE names(
		cell_id TEXT NOT NULL REFERENCES cells(id), name TEXT NOT NULL, checkpoint_id TEXT NOT NULL REFERENCES checkpoints(id),
		PRIMARY KEY(cell_id, name)) STRICT;
	CREATE TABLE runs(
		id TEXT PRIMARY KEY, cell_id TEXT NOT NULL REFERENCES cells(id), ord INTEGER NOT NULL, state TEXT NOT NULL,
		after TEXT NOT NULL, decision TEXT NOT NULL, receipt_id TEXT NOT NULL, doc TEXT NOT NULL) STRICT;
	CREATE INDEX runs_cell ON runs(cell_id, ord);
	CREATE INDEX runs_receipt ON runs(receipt_id);
	CREATE INDEX runs_after ON runs(after);
	CREATE TABLE statements(
		seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, cell_id TEXT NOT NULL, run_id TEXT NOT NULL,
		digest TEXT NOT NULL) STRICT;
	CREATE INDEX statements_cell ON statements(cell_id, seq);
	CREATE INDEX statements_run ON statements(run_id, seq);
	CREATE TABLE intents(
		id TEXT PRIMARY KEY, cell_id TEXT NOT NULL, kind TEXT NOT NULL, doc TEXT NOT NULL) STRICT;
	CREATE INDEX intents_cell ON intents(cell_id);
	CREATE TABLE applies(
		id TEXT PRIMARY KEY, cell_id TEXT NOT NULL REFERENCES cells(id), ord INTEGER NOT NULL, undone INTEGER NOT NULL,
		doc TEXT NOT NULL) STRICT;`,
	// No query uses these, and they would slow every run.
	`DROP INDEX IF EXISTS checkpoints_parent; DROP INDEX IF EXISTS runs_after;`,
	// The records that gc keeps until the operator accepts a loss.
	`CREATE TABLE unconfirmed(kind TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY(kind, id)) STRICT;`,
	// Labels and time limits of cells. The time of a cell's last use is no evidence,
	// and not always up to date: see Touch.
	`CREATE TABLE settings(cell_id TEXT PRIMARY KEY REFERENCES cells(id), doc TEXT NOT NULL) STRICT;
	CREATE TABLE touched(cell_id TEXT PRIMARY KEY REFERENCES cells(id), at INTEGER NOT NULL) STRICT;`,
	// Requests with an idempotency key, and the statements that they appended.
	`CREATE TABLE requests(id TEXT PRIMARY KEY, caller TEXT NOT NULL, route TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL,
		run_id TEXT NOT NULL, created INTEGER NOT NULL, answer BLOB NOT NULL, UNIQUE(caller, route, key)) STRICT;
	CREATE INDEX requests_created ON requests(created);
	CREATE TABLE effects(request TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY(request, seq)) STRICT;
	CREATE TABLE secrets(name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;`,
	// Positions in the stream of events have the numbers of runs. No number is given
	// twice, also not that of a run that was dropped, and a rebuilt database, whose
	// runs may have others, has another identity.
	`CREATE TABLE identity(id TEXT NOT NULL, dropped INTEGER NOT NULL) STRICT;
	INSERT INTO identity VALUES(lower(hex(randomblob(8))), 0);`,
}

// OpenDatabase opens the database of a store that was opened without it.
func (s *Store) OpenDatabase() error {
	path := s.sub(databaseName)
	if err := s.refuseLostDatabase(path); err != nil {
		return err
	}
	if s.reading && s.openToRead(path) {
		return s.refuseOldDatabase()
	}
	if s.readOnly {
		var err error
		if path, err = s.copyDatabase(); err != nil {
			return err
		}
	}
	if !s.readOnly && isNew(path) {
		// Two that make a new database wait for each other, until one gives up.
		unlock, err := s.lockFile("locks/create", unix.LOCK_EX)
		if err != nil {
			return databaseError(err)
		}
		defer unlock()
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenWAL)
	if err != nil {
		return databaseError(err)
	}
	s.conn = conn
	s.readers = newReaders(func() (*sqlite.Conn, error) { return openReader(path, sqlite.OpenReadWrite, sqlite.OpenWAL) })
	if s.file, err = os.Stat(path); err != nil {
		return databaseError(err)
	}
	conn.SetBlockOnBusy()
	conn.SetBusyTimeout(busyTimeout)
	// Every commit is synced: that is the default, which a test holds.
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA foreign_keys=ON", nil); err != nil {
		return databaseError(err)
	}
	if err := s.migrate(); err != nil {
		return err
	}
	return s.refuseOldDatabase()
}

// isNew reports whether a database does not exist, or is empty. It must not be opened
// for that: closing a file ends the locks that this process has on it.
func isNew(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Size() == 0
}

// openToRead opens the database without writing anything, so that reading works
// on a full disk and beside writers. SQLite then reads the index of its
// write-ahead log, or, if no other process has the database open, makes one in
// memory. It reports whether that worked; it does not if the files beside the
// database are missing, or if the database needs a migration.
func (s *Store) openToRead(path string) bool {
	if _, err := os.Lstat(path + "-shm"); err != nil {
		return false
	}
	name := url.URL{Scheme: "file", Path: path, RawQuery: "readonly_shm=1"}
	conn, err := sqlite.OpenConn(name.String(), sqlite.OpenReadOnly, sqlite.OpenURI)
	if err != nil {
		return false
	}
	s.conn = conn
	conn.SetBlockOnBusy()
	conn.SetBusyTimeout(busyTimeout)
	version, err := s.userVersion()
	if err == nil && version == len(migrations) {
		if s.file, err = os.Stat(path); err == nil {
			s.readers = newReaders(func() (*sqlite.Conn, error) {
				return openReader(name.String(), sqlite.OpenReadOnly, sqlite.OpenURI)
			})
			return true
		}
	}
	s.conn = nil
	_ = conn.Close()
	return false
}

// refuseOldDatabase refuses a database that is older than the log: its last
// transactions were lost, or it was truncated, which SQLite treats as new.
func (s *Store) refuseOldDatabase() error {
	last, err := s.lastSeq()
	if err != nil || s.recovering {
		return err
	}
	if last == 0 {
		committed, _, err := s.SeqsOnDisk()
		if err == nil && len(committed) > 0 {
			err = fmt.Errorf("%w: it is empty but the log has %d statements", ErrDatabase, len(committed))
		}
		return err
	}
	if !s.isCommitted(last + 1) {
		return nil
	}
	// A statement gets its name once it is committed. If another process has just
	// done so, the database has it now.
	if now, err := s.lastSeq(); err != nil || now > last {
		return err
	}
	return logAhead(last + 1)
}

// lastSeq returns the number of the last statement in the database, or 0.
func (s *Store) lastSeq() (seq int64, err error) {
	err = s.View(func(tx *Tx) error {
		return tx.query(func(r *sqlite.Stmt) error {
			seq = r.ColumnInt64(0)
			return nil
		}, "SELECT seq FROM statements ORDER BY seq DESC LIMIT 1")
	})
	return seq, err
}

// refuseLostDatabase distinguishes an empty home from one whose database is
// lost: the log is still there.
func (s *Store) refuseLostDatabase(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	has, err := s.hasLog()
	if err != nil {
		return err
	}
	if has {
		return fmt.Errorf("%w: %s is missing but the log is there", ErrDatabase, databaseName)
	}
	// A cell is recorded before its first layer is made.
	layers, err := s.names("layers")
	if err == nil && len(layers) > 0 {
		err = fmt.Errorf("%w: %s and the log are missing but there are states", ErrDatabase, databaseName)
	}
	return err
}

// copyDatabase makes a private copy of a read-only home's database: SQLite
// cannot read a write-ahead log without writing beside it.
func (s *Store) copyDatabase() (string, error) {
	dir, err := os.MkdirTemp("", "forkcell-read-")
	if err != nil {
		return "", err
	}
	s.scratch = dir
	for _, suffix := range []string{"", logSuffix} {
		data, err := os.ReadFile(s.sub(databaseName + suffix))
		if suffix != "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", databaseError(err)
		}
		if err := os.WriteFile(filepath.Join(dir, databaseName+suffix), data, 0o600); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, databaseName), nil
}

func (s *Store) migrate() error {
	have, err := s.userVersion()
	if err != nil {
		return err
	}
	if have > len(migrations) {
		return fmt.Errorf("%w: database version %d, this program knows %d", ErrNewer, have, len(migrations))
	}
	if have == len(migrations) {
		return nil
	}
	return s.transact(func(*Tx) error {
		// Another process may have migrated while this one waited.
		have, err := s.userVersion()
		if err != nil {
			return err
		}
		for n := have; n < len(migrations); n++ {
			if err := sqlitex.ExecuteScript(s.conn, migrations[n], nil); err != nil {
				return err
			}
		}
		return sqlitex.ExecuteTransient(s.conn, fmt.Sprintf("PRAGMA user_version=%d", len(migrations)), nil)
	})
}

func (s *Store) userVersion() (int, error) {
	version := 0
	err := sqlitex.ExecuteTransient(s.conn, "PRAGMA user_version", &sqlitex.ExecOptions{ResultFunc: func(r *sqlite.Stmt) error {
		version = r.ColumnInt(0)
		return nil
	}})
	return version, databaseError(err)
}

// asidePrefix begins the names of databases that a recovery has set aside.
const asidePrefix = databaseName + ".before-"

// ResetDatabase sets the present database aside and opens an empty one, for
// recovery. It returns the old one's new name, or "".
func (s *Store) ResetDatabase() (string, error) {
	aside := ""
	if _, err := os.Lstat(s.sub(databaseName)); err == nil {
		aside = s.sub(asidePrefix + NewID("recover"))
		if err := os.Rename(s.sub(databaseName), aside); err != nil {
			return "", err
		}
	}
	for _, suffix := range []string{logSuffix, "-shm"} {
		from := s.sub(databaseName + suffix)
		if _, err := os.Lstat(from); err != nil {
			continue
		}
		to := aside + suffix
		if aside == "" {
			to = s.sub(asidePrefix + NewID("recover") + suffix)
		}
		if err := os.Rename(from, to); err != nil {
			return aside, err
		}
	}
	// OpenDatabase would refuse to make a database beside a log that has
	// statements; here that is the purpose.
	f, err := os.OpenFile(s.sub(databaseName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return aside, err
	}
	s.recovering = true
	return aside, errors.Join(f.Close(), s.OpenDatabase())
}

// TakeBackDatabase undoes ResetDatabase: the old database gets its name again.
// Without an old one there is nothing to undo.
func (s *Store) TakeBackDatabase(aside string) error {
	if aside == "" {
		return nil
	}
	err := s.CloseDatabase()
	for _, suffix := range []string{logSuffix, "-shm"} {
		if gone := os.Remove(s.sub(databaseName + suffix)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		if back := os.Rename(aside+suffix, s.sub(databaseName+suffix)); back != nil && !errors.Is(back, fs.ErrNotExist) {
			err = errors.Join(err, back)
		}
	}
	return errors.Join(err, os.Rename(aside, s.sub(databaseName)))
}

// checkDatabase refuses a database that has been set aside since it was opened.
// The caller holds the home's lock, so the result stays valid.
func (s *Store) checkDatabase() error {
	if s.file == nil {
		return nil // it is lost, or in memory
	}
	if now, err := os.Stat(s.sub(databaseName)); err != nil || !os.SameFile(now, s.file) {
		return fmt.Errorf("%w: it was rebuilt meanwhile; run the command again", ErrDatabase)
	}
	return nil
}

// Scratch returns the same home with an empty database in memory, to replay the
// log into. Only its database has to be closed.
func (s *Store) Scratch() (*Store, error) {
	conn, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		return nil, databaseError(err)
	}
	scratch := &Store{path: s.path, home: s.home, dir: s.dir, conn: conn}
	return scratch, scratch.migrate()
}

// databaseError turns SQLite's error about a damaged file into ErrDatabase.
func databaseError(err error) error {
	if err == nil {
		return nil
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultNotADB, sqlite.ResultCorrupt, sqlite.ResultCantOpen:
		return fmt.Errorf("%w: %w", ErrDatabase, err)
	case sqlite.ResultFull:
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"

	"github.com/forkcell/forkcell/internal/testkit/failpoint"
)

// maxStatement bounds the size of a statement that is read.
const maxStatement = 4 << 20

// Statement is a line of the index of the log.
type Statement struct {
	Seq    int64
	ID     string
	Kind   string
	CellID string
	RunID  string
	Digest string
}

// Next is the place of the next statement: its number and the statements before
// it.
type Next struct {
	Seq      int64
	Prev     string // digest of the statement before it, "" for the first
	CellPrev string // digest of the cell's statement before it
}

// Append adds a statement to the home's log. The caller signs it with its
// place. The file first has a name which shows that its transaction may not
// have committed. Update makes the file durable before the commit, and renames
// it afterwards.
func (tx *Tx) Append(st Statement, sign func(Next) ([]byte, error)) (Statement, error) {
	last, err := tx.LastStatement()
	if err != nil && !errors.Is(err, ErrNotFound) {
		return st, err
	}
	next := Next{Seq: last.Seq + 1, Prev: last.Digest}
	err = tx.query(func(r *sqlite.Stmt) error {
		next.CellPrev = r.ColumnText(0)
		return nil
	}, "SELECT digest FROM statements WHERE cell_id=? AND cell_id<>'' ORDER BY seq DESC LIMIT 1", st.CellID)
	if err != nil {
		return st, err
	}
	envelope, err := sign(next)
	if err != nil {
		return st, err
	}
	if err := tx.s.writeStatement(next.Seq, envelope); err != nil {
		return st, fmt.Errorf("write the log: %w", err)
	}
	failpoint.Hit("log.written")
	tx.appended = append(tx.appended, next.Seq)
	st.Seq, st.Digest = next.Seq, Digest(envelope)
	return st, tx.IndexStatement(st)
}

// IndexStatement records a statement that is in the log already.
func (tx *Tx) IndexStatement(st Statement) error {
	return tx.exec("INSERT INTO statements(seq,id,kind,cell_id,run_id,digest) VALUES(?,?,?,?,?,?)",
		st.Seq, st.ID, st.Kind, st.CellID, st.RunID, st.Digest)
}

const cellStatements = "SELECT seq, id, kind, cell_id, run_id, digest FROM statements WHERE cell_id=? ORDER BY seq"

// Statements lists the index in order; cellID "" means all.
func (tx *Tx) Statements(cellID string) ([]Statement, error) {
	// With one condition for both, SQLite would go through all of them for one cell.
	if cellID == "" {
		return all(tx, scanStatement, "SELECT seq, id, kind, cell_id, run_id, digest FROM statements ORDER BY seq")
	}
	return all(tx, scanStatement, cellStatements, cellID)
}

// RunStatements lists the statements about one run.
func (tx *Tx) RunStatements(runID string) ([]Statement, error) {
	return all(tx, scanStatement,
		"SELECT seq, id, kind, cell_id, run_id, digest FROM statements WHERE run_id=? ORDER BY seq", runID)
}

// StatementsCalled lists the lines of the index whose ids have a prefix, without
// its underscore.
func (tx *Tx) StatementsCalled(prefix string) ([]Statement, error) {
	return all(tx, scanStatement,
		"SELECT seq, id, kind, cell_id, run_id, digest FROM statements WHERE id>?1||'_' AND id<?1||'`' ORDER BY seq", prefix)
}

// StatementByID finds one line of the index.
func (tx *Tx) StatementByID(id string) (Statement, error) {
	return one(tx, scanStatement, "SELECT seq, id, kind, cell_id, run_id, digest FROM statements WHERE id=?", id)
}

// LastStatement finds the newest line of the index.
func (tx *Tx) LastStatement() (Statement, error) {
	return one(tx, scanStatement, "SELECT seq, id, kind, cell_id, run_id, digest FROM statements ORDER BY seq DESC LIMIT 1")
}

// LastOfCell returns the number of the newest statement about a cell, leaving out as many
// newer ones as skip says; 0 if there is none.
func (tx *Tx) LastOfCell(cellID string, skip int) (seq int64, err error) {
	err = tx.query(func(r *sqlite.Stmt) error {
		seq = r.ColumnInt64(0)
		return nil
	}, "SELECT seq FROM statements WHERE cell_id=? ORDER BY seq DESC LIMIT 1 OFFSET ?", cellID, skip)
	return seq, err
}

// FirstOfCell finds the statement that made a cell.
func (tx *Tx) FirstOfCell(cellID string) (Statement, error) {
	return one(tx, scanStatement, "SELECT seq, id, kind, cell_id, run_id, digest FROM statements WHERE cell_id=? ORDER BY seq LIMIT 1", cellID)
}

// StatementAt finds the line of the index for a place in the log.
func (tx *Tx) StatementAt(seq int64) (Statement, error) {
	return one(tx, scanStatement, "SELECT seq, id, kind, cell_id, run_id, digest FROM statements WHERE seq=?", seq)
}

// LastOfHome finds the newest line of a kind that is about no cell.
func (tx *Tx) LastOfHome(kind string) (Statement, error) {
	return one(tx, scanStatement,
		"SELECT seq, id, kind, cell_id, run_id, digest FROM statements WHERE cell_id='' AND kind=? ORDER BY seq DESC LIMIT 1", kind)
}

func scanStatement(r *sqlite.Stmt) (Statement, error) {
	return Statement{
		Seq: r.ColumnInt64(0), ID: r.ColumnText(1), Kind: r.ColumnText(2),
		CellID: r.ColumnText(3), RunID: r.ColumnText(4), Digest: r.ColumnText(5),
	}, nil
}

// Complete returns the one id of a table that a reference means, as PickID
// does. Only a part of an id is compared with all of them. table is one of cells, checkpoints, runs, statements.
// If keep is not nil, an id that it does not keep does not exist.
func (tx *Tx) Complete(table, ref string, keep func(id string) (bool, error)) (string, error) {
	if !slices.Contains([]string{"cells", "checkpoints", "runs", "statements"}, table) {
		return "", fmt.Errorf("no ids in %q", table)
	}
	var ids []string
	add := func(r *sqlite.Stmt) error {
		id := r.ColumnText(0)
		if keep != nil {
			if ok, err := keep(id); err != nil || !ok {
				return err
			}
		}
		ids = append(ids, id)
		return nil
	}
	err := tx.query(add, "SELECT id FROM "+table+" WHERE id=?", ref)
	if err == nil && len(ids) == 0 {
		_, end := part(ref)
		err = tx.query(add, "SELECT id FROM "+table+" WHERE instr(id,?)>0", end)
	}
	if err != nil {
		return "", err
	}
	return PickID(ids, ref)
}

// Digest returns the digest that names bytes.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// The log's files are grouped by thousands so that no directory grows without
// bound.
func logName(seq int64) (dir, file string) {
	return fmt.Sprintf("log/%07d", seq/1000), fmt.Sprintf("%010d.json", seq)
}

// uncommittedError marks a statement whose transaction may not have been committed.
// If it was, the index has its digest, and the name does not matter. If it was
// not, the next statement of that number replaces it.
const uncommittedError = ".new"

func logAhead(seq int64) error {
	return fmt.Errorf("%w: the log is ahead of it at statement %d", ErrDatabase, seq)
}

// isCommitted reports whether the log has a committed statement of this number.
func (s *Store) isCommitted(seq int64) bool {
	dir, file := logName(seq)
	_, err := s.dir.Lstat(dir + "/" + file)
	return err == nil
}

func (s *Store) writeStatement(seq int64, data []byte) error {
	dir, file := logName(seq)
	if err := s.dir.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	d, err := s.dir.OpenDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if _, err := d.Lstat(file); err == nil {
		return logAhead(seq)
	}
	if err := d.Remove(file + uncommittedError); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := d.Create(file+uncommittedError, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// manyStatements is the number from which one sync of the file system costs
// less than one of each file.
const manyStatements = 6

// syncStatements makes the statements of a transaction durable before it
// commits. A file that is damaged by a crash before that does not count.
func (s *Store) syncStatements(seqs []int64) error {
	if len(seqs) >= manyStatements {
		return s.dir.SyncFS()
	}
	dirs := map[string]bool{}
	for _, seq := range seqs {
		dir, file := logName(seq)
		f, err := s.dir.OpenFile(dir + "/" + file + uncommittedError)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return fmt.Errorf("write the log: %w", err)
		}
		dirs[dir] = true
		if seq%1000 == 0 || seq == 1 {
			dirs["log"] = true
		}
	}
	return s.syncDirs(slices.Sorted(maps.Keys(dirs))...)
}

// publish renames committed statements to their final names. It need not
// succeed, nor be durable: readers know both names.
func (s *Store) publish(seqs []int64) {
	for _, seq := range seqs {
		dir, file := logName(seq)
		_ = s.dir.Rename(dir+"/"+file+uncommittedError, s.dir, dir+"/"+file, unix.RENAME_NOREPLACE)
	}
}

// openStatement finds a statement under either of its names. It can be renamed
// meanwhile, so the first name is tried again at the end.
func (s *Store) openStatement(seq int64) (f *os.File, err error) {
	dir, file := logName(seq)
	for _, suffix := range []string{"", uncommittedError, ""} {
		if f, err = s.dir.OpenFile(dir + "/" + file + suffix); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, err
}

// ReadStatement returns the exact bytes of a statement.
func (s *Store) ReadStatement(seq int64) ([]byte, error) {
	f, err := s.openStatement(seq)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxStatement+1))
	if err == nil && len(data) > maxStatement {
		err = fmt.Errorf("statement %d is larger than %d bytes", seq, maxStatement)
	}
	return data, err
}

// hasLog reports whether the log directory has any statement.
func (s *Store) hasLog() (bool, error) {
	committed, tail, err := s.SeqsOnDisk()
	return len(committed)+len(tail) > 0, err
}

// SeqsOnDisk lists the numbers in the log directory, in order: those that are
// known to be committed, and those after them that may be.
func (s *Store) SeqsOnDisk() (committed, tail []int64, err error) {
	groups, err := s.names("log")
	if err != nil {
		return nil, nil, err
	}
	for _, g := range groups {
		if _, err := strconv.ParseUint(g, 10, 64); err != nil {
			continue // it holds no statements
		}
		files, err := s.names("log/" + g)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range files {
			name, open := strings.CutSuffix(name, uncommittedError)
			seq, err := strconv.ParseInt(strings.TrimSuffix(name, ".json"), 10, 64)
			// Only the name that a statement gets: another one would count it twice.
			dir, file := logName(seq)
			switch {
			case err != nil || seq < 1 || dir != "log/"+g || file != name:
			case open:
				tail = append(tail, seq)
			default:
				committed = append(committed, seq)
			}
		}
	}
	last := int64(0)
	if len(committed) > 0 {
		last = committed[len(committed)-1]
	}
	// A number is used only after the one before it was committed. So a
	// statement that is followed by a committed one was committed too, by a
	// process that died before it renamed the file.
	tail = slices.DeleteFunc(tail, func(seq int64) bool {
		if seq < last && !slices.Contains(committed, seq) {
			committed = append(committed, seq)
		}
		return seq <= last
	})
	slices.Sort(committed)
	return committed, tail, nil
}

// Publish adds statements that were found to be complete to the log, for
// recovery.
func (s *Store) Publish(seqs []int64) { s.publish(seqs) }

func (s *Store) names(dir string) ([]string, error) {
	d, err := s.dir.OpenDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Names()
}

// Package store keeps what a home remembers: an SQLite index, the append-only
// log of signed statements, blobs by digest, keys and locks.
//
// The log is the truth and the database is an index of it: everything in the
// database that matters can be rebuilt from the log and from the manifests
// beside the layers. The package knows nothing of processes, mounts, file trees
// or of what a statement says.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// format is the newest layout of a home that this program knows.
const format = 1

// Errors that callers distinguish.
var (
	ErrNoHome     = errors.New("there is no state directory")
	ErrPermission = errors.New("the state directory is not private")
	ErrUnusable   = errors.New("the state directory cannot be used")
	ErrNewer      = errors.New("the state directory was made by a newer version")
	ErrRemote     = errors.New("the state directory is on a remote file system")
	ErrDatabase   = errors.New("the database cannot be used")
	ErrReadOnly   = errors.New("the state directory cannot be written")
	ErrFull       = errors.New("no space left for the database")
)

// Mode is the purpose for which a store is opened.
type Mode int

// The modes.
const (
	Create Mode = iota // make the home if need be
	Write              // an existing home
	Read               // also from a read-only file system
	Visit              // as Read, without a database until OpenDatabase
	Rescue             // without a database
	Work               // as Write, for a command that will need room on the disk
	Serve              // as Create, for a process that stays
)

func (m Mode) creates() bool { return m == Create || m == Serve }

// home is the content of home.json.
type home struct {
	Format int    `json:"format"`
	ID     string `json:"home_id"`
}

// Store is an open home.
type Store struct {
	path string
	home home
	dir  *fsx.Dir

	mu         sync.Mutex // one connection that writes, one user at a time
	conn       *sqlite.Conn
	group      group    // updates that wait for the connection
	readers    *readers // nil for a database in memory
	readOnly   bool
	reading    bool        // nothing is written, not even beside the database
	file       os.FileInfo // of the database that is open
	recovering bool        // an empty database beside a log is the purpose
	stays      bool        // this process makes many commits
	scratch    string      // where a read-only home's database was copied
	rows       atomic.Int64
}

// Open opens the home at path.
func Open(path string, mode Mode) (*Store, error) {
	if mode.creates() {
		err := os.MkdirAll(path, 0o700)
		if errors.Is(err, fs.ErrNotExist) { // as in /proc; the hint to make one would lead here again
			return nil, fmt.Errorf("the state directory cannot be made: %w", err)
		}
		if err != nil {
			return nil, openError(path, err)
		}
	}
	if err := checkHome(path); err != nil {
		return nil, err
	}
	dir, err := fsx.OpenRoot(path)
	if err != nil {
		return nil, openError(path, err)
	}
	s := &Store{path: path, dir: dir, readOnly: unix.Access(path, unix.W_OK) != nil, stays: mode == Serve}
	if err := s.prepare(mode); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) prepare(mode Mode) error {
	if s.readOnly && mode != Read && mode != Visit {
		return fmt.Errorf("%w: %s", ErrReadOnly, s.path)
	}
	if err := s.loadHome(mode); err != nil {
		return err
	}
	if err := s.prepareRoom(mode); err != nil {
		return err
	}
	if mode == Rescue || mode == Visit {
		return nil
	}
	s.reading = mode == Read
	return s.OpenDatabase()
}

// prepareRoom checks and prepares disk space before anything is written. Reading verbs
// need none.
func (s *Store) prepareRoom(mode Mode) error {
	switch mode {
	case Read, Visit:
		return nil
	case Work:
		return errors.Join(s.RefuseFull(), s.TakeReserve())
	case Create, Serve, Write, Rescue:
	}
	return s.MakeRoom()
}

func openError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s", ErrNoHome, path)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: %s", ErrReadOnly, path)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnusable, path, err)
}

// checkHome refuses a home that others could read or change, or that is on an
// unsuitable file system.
func checkHome(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return openError(path, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%w: %s is not a directory", ErrUnusable, path)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%w: %s belongs to user %d, not to %d", ErrUnusable, path, st.Uid, os.Geteuid())
	case st.Mode&0o077 != 0:
		return fmt.Errorf("%w: %s has mode %04o; it needs 0700", ErrPermission, path, st.Mode&0o7777)
	}
	var sfs unix.Statfs_t
	if err := unix.Statfs(path, &sfs); err != nil {
		return openError(path, err)
	}
	switch sfs.Type {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC,
		unix.CEPH_SUPER_MAGIC, unix.V9FS_MAGIC, unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC:
		return fmt.Errorf("%w: %s", ErrRemote, path)
	}
	return nil
}

// loadHome reads home.json, and writes it first where there is none yet.
func (s *Store) loadHome(mode Mode) error {
	f, err := s.dir.OpenFile(homeName)
	if errors.Is(err, fs.ErrNotExist) {
		return s.withoutHome(mode)
	}
	if err != nil {
		return fmt.Errorf("read home.json: %w", err)
	}
	defer f.Close()
	dec := json.NewDecoder(f)
	if err := dec.Decode(&s.home); err != nil || s.home.ID == "" {
		s.home = home{}
		if mode == Rescue {
			return nil // NameHome writes it anew
		}
		return fmt.Errorf("%w: home.json is damaged: %w", ErrDatabase, errors.Join(err, errors.New("no home_id")))
	}
	if s.home.Format > format {
		return fmt.Errorf("%w: format %d, this program knows %d", ErrNewer, s.home.Format, format)
	}
	return nil
}

// withoutHome distinguishes a home that has lost its home.json from a directory
// that never was a home: the log and the database are still there.
func (s *Store) withoutHome(mode Mode) error {
	lost, err := s.hasLog()
	if err != nil {
		return err
	}
	if _, err := s.dir.Lstat(databaseName); err == nil {
		lost = true
	}
	if s.hasHome() { // another process has made it meanwhile
		return s.loadHome(mode)
	}
	switch {
	case lost && mode == Rescue:
		return nil // NameHome writes it anew
	case lost:
		return fmt.Errorf("%w: home.json of %s is missing but the log is there", ErrDatabase, s.path)
	case mode.creates():
		return s.createHome()
	}
	return fmt.Errorf("%w: %s", ErrNoHome, s.path)
}

// NameHome writes a lost home.json again. id is the home's id in the log; "" means
// a new one.
func (s *Store) NameHome(id string) error {
	if s.home.ID != "" {
		return nil
	}
	if id == "" {
		id = NewID("home")
	}
	return s.writeHome(id)
}

func (s *Store) writeHome(id string) error {
	s.home = home{Format: format, ID: id}
	data, err := json.Marshal(s.home)
	if err != nil {
		return err
	}
	return fsx.WriteFile(s.dir, homeName, append(data, '\n'), 0o600)
}

// homeName is the file that makes a directory a home.
const homeName = "home.json"

// homeDirs are made before home.json, which marks the home as complete.
var homeDirs = []string{"locks", "blobs/sha256", "layers", "pending", "objects", "live", "applies", "log", "keys/trusted"}

// RemotesDir is the directory of homes in a home: one for each daemon, with the cells
// that stand for those of the daemon. It may exist before its home does.
const RemotesDir = "remotes"

func (s *Store) createHome() error {
	names, err := s.dir.Names()
	if err != nil {
		return fmt.Errorf("read the state directory: %w", err)
	}
	if slices.Contains(names, homeName) {
		return s.loadHome(Read)
	}
	for _, n := range names {
		if !isTemp(n) && n != RemotesDir && !slices.ContainsFunc(homeDirs, func(d string) bool { return strings.HasPrefix(d, n) }) {
			return fmt.Errorf("%w: %s holds %q but no home.json: it is not a state directory", ErrUnusable, s.path, n)
		}
	}
	if err := s.dir.MkdirAll("locks", 0o700); err != nil {
		return err
	}
	unlock, err := s.lockFile("locks/create", unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlock()
	if s.hasHome() {
		return s.loadHome(Read)
	}
	for _, d := range homeDirs {
		if err := s.dir.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("make the state directory: %w", err)
		}
	}
	return s.writeHome(NewID("home"))
}

// hasHome reports whether the directory is a home.
func (s *Store) hasHome() bool {
	_, err := s.dir.Lstat(homeName)
	return err == nil
}

func isTemp(name string) bool { return len(name) > 0 && name[0] == '.' }

// ID returns the home's id, which is fixed when the home is made.
func (s *Store) ID() string { return s.home.ID }

// Path returns the path of the home.
func (s *Store) Path() string { return s.path }

// Dir returns the home's directory.
func (s *Store) Dir() *fsx.Dir { return s.dir }

// ReadOnly reports whether the store cannot be written.
func (s *Store) ReadOnly() bool { return s.readOnly }

// Close ends the use of the home by a program that is about to exit. It leaves
// the database connection to the end of the process: SQLite's own close would
// copy the write-ahead log back and delete it, which costs more than all the rest
// of a short run, and every commit is durable already. CloseDatabase does it
// properly.
func (s *Store) Close() error {
	var err error
	if s.stays && s.conn != nil {
		s.mu.Lock()
		s.cutLog()
		s.mu.Unlock()
	}
	if s.reading {
		// SQLite shares its state of an open file within a process: the home
		// could not be opened for writing beside a connection that only reads.
		err = s.CloseDatabase()
	}
	if s.scratch != "" {
		err = errors.Join(err, os.RemoveAll(s.scratch))
	}
	return errors.Join(err, s.dir.Close())
}

// CloseDatabase closes the connection, for programs that continue.
func (s *Store) CloseDatabase() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil
	}
	if s.readers != nil {
		s.readers.close()
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}

// sub joins a name below the home, for messages and for SQLite.
func (s *Store) sub(name string) string { return filepath.Join(s.path, name) }

// SetAsidePending moves unfinished work, whose record is lost, to a place where
// gc does not look, and returns the places. Work that has a record stays.
func (s *Store) SetAsidePending(recorded func(op string) bool) ([]string, error) {
	names, err := s.names("pending")
	if err != nil {
		return nil, err
	}
	var kept []string
	for _, n := range names {
		if isTemp(n) || recorded(n) {
			continue
		}
		if err := s.dir.MkdirAll("unfinished", 0o700); err != nil {
			return kept, err
		}
		if err := s.dir.Rename("pending/"+n, s.dir, "unfinished/"+n, 0); err != nil {
			return kept, err
		}
		kept = append(kept, s.sub("unfinished/"+n))
	}
	return kept, nil
}

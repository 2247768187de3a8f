package store

import (
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	// maxReaders bounds the connections that read beside the writer's.
	maxReaders = 16
	// idleReaders is the number of them that are kept open.
	idleReaders = 4
)

// readers are connections for views that would have to wait for the writer's.
type readers struct {
	// open makes a connection to the database.
	open  func() (*sqlite.Conn, error)
	slots chan struct{}
	idle  chan *sqlite.Conn
	watch watch
}

func newReaders(open func() (*sqlite.Conn, error)) *readers {
	return &readers{open: open, slots: make(chan struct{}, maxReaders), idle: make(chan *sqlite.Conn, idleReaders)}
}

// take returns a connection. The caller returns it with give. It waits while too
// many are in use.
func (r *readers) take() (*sqlite.Conn, error) {
	r.slots <- struct{}{}
	select {
	case c := <-r.idle:
		return c, nil
	default:
	}
	c, err := r.open()
	if err != nil {
		<-r.slots
		return nil, databaseError(err)
	}
	return c, nil
}

func (r *readers) give(c *sqlite.Conn) {
	defer func() { <-r.slots }()
	select {
	case r.idle <- c:
	default:
		_ = c.Close() // nothing was written
	}
}

// close closes the connections that are not in use, and the one that watches.
func (r *readers) close() {
	r.watch.close()
	for {
		select {
		case c := <-r.idle:
			_ = c.Close() // nothing was written
		default:
			return
		}
	}
}

// openReader opens another connection to an open database.
func openReader(name string, flags ...sqlite.OpenFlags) (*sqlite.Conn, error) {
	c, err := sqlite.OpenConn(name, flags...)
	if err != nil {
		return nil, err
	}
	c.SetBlockOnBusy()
	c.SetBusyTimeout(busyTimeout)
	if err := sqlitex.ExecuteTransient(c, "PRAGMA query_only=ON", nil); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// View runs fn on one consistent state of the database. It does not wait for
// other readers and writers of this process.
func (s *Store) View(fn func(*Tx) error) error {
	if s.mu.TryLock() {
		defer s.mu.Unlock()
		return s.view(s.conn, fn)
	}
	if s.readers == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.view(s.conn, fn)
	}
	conn, err := s.readers.take()
	if err != nil {
		return err
	}
	defer s.readers.give(conn)
	return s.view(conn, fn)
}

// ViewApart is View for work that takes long: updates of this process do not wait for it.
func (s *Store) ViewApart(fn func(*Tx) error) error {
	if s.readers == nil {
		return s.View(fn)
	}
	conn, err := s.readers.take()
	if err != nil {
		return s.View(fn) // the disk may be full
	}
	defer s.readers.give(conn)
	return s.view(conn, fn)
}

func (s *Store) view(conn *sqlite.Conn, fn func(*Tx) error) (err error) {
	if conn == nil {
		return fmt.Errorf("%w: it is not open", ErrDatabase)
	}
	end := sqlitex.Transaction(conn)
	defer func() {
		end(&err)
		err = databaseError(err)
	}()
	return fn(&Tx{s: s, conn: conn})
}

package store

import (
	"errors"
	"fmt"
	"sync"

	"zombiezen.com/go/sqlite/sqlitex"
)

// group collects the updates that arrive while another one is being committed. They
// are then committed together, so that they share their syncs: the next of them does
// the work of all. A lone update is committed at once.
type group struct {
	mu      sync.Mutex
	waiting []*update
}

// update is one call of Update.
type update struct {
	fn       func(*Tx) error
	appended []int64 // numbers of the statements that it adds to the log
	done     bool    // set under the writer's lock
	err      error
	panicked any
}

// maxGroup bounds the updates of one commit, and so the time that each waits.
const maxGroup = 64

func (g *group) add(u *update) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, u)
}

// take removes the oldest updates from those that wait.
func (g *group) take() []*update {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), maxGroup)
	batch := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	return batch
}

// Update runs fn in a transaction that other processes wait for. When it returns
// without an error, the changes are durable. Several updates may share a transaction;
// each of them is made as a whole or not at all.
func (s *Store) Update(fn func(*Tx) error) error {
	if s.readOnly {
		return ErrReadOnly
	}
	u := &update{fn: fn}
	s.group.add(u)
	s.commitUntil(u)
	if u.panicked != nil {
		panic(u.panicked)
	}
	return u.err
}

// commitUntil commits groups until an update is done. Mostly that is one group, or
// none because the holder of the lock before did it.
func (s *Store) commitUntil(u *update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !u.done {
		s.commit(s.group.take())
	}
}

// errRolledBack is the error of updates whose common transaction SQLite has given up,
// as it does when the disk is full.
var errRolledBack = errors.New("the transaction was rolled back")

// commit makes a group of updates durable.
func (s *Store) commit(batch []*update) {
	err := errRolledBack
	defer func() {
		for _, u := range batch {
			u.done = true
			if u.err == nil {
				u.err = err
			}
		}
	}()
	var appended []int64
	err = s.transact(func(tx *Tx) error {
		for _, u := range batch {
			u.run(tx, len(batch) > 1)
			if u.err != nil && len(batch) == 1 {
				return u.err
			}
			if tx.conn.AutocommitEnabled() {
				return errors.Join(u.err, errRolledBack)
			}
			appended = append(appended, u.appended...)
		}
		return s.syncStatements(appended)
	})
	if err == nil {
		s.publish(appended)
	}
}

// run makes the changes of an update. If it fails, none of them stays; that takes a
// savepoint if the transaction has others.
func (u *update) run(tx *Tx, shared bool) {
	own := &Tx{s: tx.s, conn: tx.conn}
	defer func() {
		if u.err == nil {
			u.appended = own.appended
		}
	}()
	if shared {
		defer sqlitex.Save(tx.conn)(&u.err)
	}
	defer func() {
		if u.panicked = recover(); u.panicked != nil {
			u.err = errors.Join(u.err, fmt.Errorf("update: %v", u.panicked))
		}
	}()
	u.err = databaseError(u.fn(own))
}

package store

import (
	"crypto/rand"
	"errors"
	"time"

	"zombiezen.com/go/sqlite"
)

// Request is a request with an idempotency key: it is carried out once. Caller,
// Route and Key identify it.
type Request struct {
	ID     string
	Caller string
	Route  string
	Key    string
	// Body is a keyed hash of the request.
	Body string
	// RunID is the run that the request asks for, if it does.
	RunID   string
	Created time.Time
	// Answer is empty until the request is answered.
	Answer []byte
}

const requestColumns = "id, caller, route, key, body, run_id, created, answer"

func scanRequest(r *sqlite.Stmt) (Request, error) {
	q := Request{
		ID: r.ColumnText(0), Caller: r.ColumnText(1), Route: r.ColumnText(2), Key: r.ColumnText(3), Body: r.ColumnText(4),
		RunID: r.ColumnText(5), Created: time.UnixMilli(r.ColumnInt64(6)).UTC(), Answer: make([]byte, r.ColumnLen(7)),
	}
	r.ColumnBytes(7, q.Answer)
	return q, nil
}

// PutRequest records a request before it is carried out.
func (tx *Tx) PutRequest(q Request) error {
	return tx.exec("INSERT INTO requests("+requestColumns+") VALUES(?,?,?,?,?,?,?,x'')",
		q.ID, q.Caller, q.Route, q.Key, q.Body, q.RunID, q.Created.UnixMilli())
}

// Request finds a request by its key.
func (tx *Tx) Request(caller, route, key string) (Request, error) {
	return one(tx, scanRequest, "SELECT "+requestColumns+" FROM requests WHERE caller=? AND route=? AND key=?", caller, route, key)
}

// RenewRun changes the run that a request asks for.
func (tx *Tx) RenewRun(id, run string) error {
	return tx.exec("UPDATE requests SET run_id=? WHERE id=?", run, id)
}

// AnswerRequest keeps the answer to a request.
func (tx *Tx) AnswerRequest(id string, answer []byte) error {
	return tx.exec("UPDATE requests SET answer=? WHERE id=?", answer, id)
}

// AnswerBytes returns the size of the answers that are kept for a caller.
func (tx *Tx) AnswerBytes(caller string) (int64, error) {
	return one(tx, func(r *sqlite.Stmt) (int64, error) { return r.ColumnInt64(0), nil },
		"SELECT COALESCE(SUM(LENGTH(answer)), 0) FROM requests WHERE caller=?", caller)
}

// TrimAnswers replaces the oldest answers to a caller until all of them have at most so
// many bytes. The requests stay: they are not carried out again.
func (tx *Tx) TrimAnswers(caller string, most int64, replacement []byte) error {
	total, err := tx.AnswerBytes(caller)
	for err == nil && total > most {
		var oldest sizedAnswer
		oldest, err = one(tx, func(r *sqlite.Stmt) (sizedAnswer, error) {
			return sizedAnswer{r.ColumnText(0), r.ColumnInt64(1)}, nil
		}, "SELECT id, LENGTH(answer) FROM requests WHERE caller=? AND LENGTH(answer)>? ORDER BY created, id LIMIT 1", caller, len(replacement))
		if err == nil {
			total -= oldest.bytes - int64(len(replacement))
			err = tx.AnswerRequest(oldest.id, replacement)
		}
	}
	if errors.Is(err, ErrNotFound) {
		return nil // there is nothing left to replace
	}
	return err
}

type sizedAnswer struct {
	id    string
	bytes int64
}

// DropRequest forgets a request, so that its key can be used again.
func (tx *Tx) DropRequest(id string) error {
	return errors.Join(tx.exec("DELETE FROM effects WHERE request=?", id), tx.exec("DELETE FROM requests WHERE id=?", id))
}

// DropRequestsBefore forgets requests that are older.
func (tx *Tx) DropRequestsBefore(t time.Time) error {
	return errors.Join(
		tx.exec("DELETE FROM effects WHERE request IN (SELECT id FROM requests WHERE created<?)", t.UnixMilli()),
		tx.exec("DELETE FROM requests WHERE created<?", t.UnixMilli()))
}

// AddEffect records that a request appended a statement. It is part of the same
// transaction, so a request has an effect if and only if it has such a row.
func (tx *Tx) AddEffect(request string, seq int64) error {
	return tx.exec("INSERT INTO effects(request,seq) VALUES(?,?)", request, seq)
}

// Effects lists the statements that a request appended.
func (tx *Tx) Effects(request string) ([]Statement, error) {
	return all(tx, scanStatement, `SELECT s.seq, s.id, s.kind, s.cell_id, s.run_id, s.digest FROM effects e JOIN statements s ON s.seq=e.seq
		WHERE e.request=? ORDER BY s.seq`, request)
}

// Secret returns the random bytes that have a name, and makes them at first.
func (tx *Tx) Secret(name string) ([]byte, error) {
	found, err := one(tx, func(r *sqlite.Stmt) ([]byte, error) {
		value := make([]byte, r.ColumnLen(0))
		r.ColumnBytes(0, value)
		return value, nil
	}, "SELECT value FROM secrets WHERE name=?", name)
	if !errors.Is(err, ErrNotFound) {
		return found, err
	}
	value := make([]byte, 32)
	_, _ = rand.Read(value) // it never fails
	return value, tx.exec("INSERT INTO secrets(name,value) VALUES(?,?)", name, value)
}

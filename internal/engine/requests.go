package engine

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// keepRequests is how long the answer to a request with a key is kept.
const keepRequests = 24 * time.Hour

// KeyedRequest is a request that is carried out once, also when it is repeated.
type KeyedRequest struct {
	Caller, Route, Key string
	// Content is everything that the request says. Only a keyed hash of it is kept.
	Content []byte
	// Run reports that the request asks for a run, whose id is chosen beforehand.
	Run bool
}

// BeginRequest records a request before it is carried out. known reports that it
// was recorded before, and not forgotten since. Another content with the same key
// is refused.
func (e *Engine) BeginRequest(_ context.Context, k KeyedRequest) (q store.Request, known bool, err error) {
	err = e.Store.Update(func(tx *store.Tx) error {
		secret, err := tx.Secret("requests")
		if err != nil {
			return err
		}
		now := e.Now().UTC()
		if err := tx.DropRequestsBefore(e.shared.requests.forgetBefore(now, e.shared.steady())); err != nil {
			return err
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write(k.Content)
		body := hex.EncodeToString(mac.Sum(nil))
		q, err = tx.Request(k.Caller, k.Route, k.Key)
		if err == nil {
			known = true
			if q.Body != body {
				return api.Refusef(api.CodeKeyReused, "use another key", "the idempotency key was used with another request")
			}
			return nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		q = store.Request{ID: store.NewID("req"), Caller: k.Caller, Route: k.Route, Key: k.Key, Body: body, Created: now}
		if k.Run {
			q.RunID = store.NewID("run")
		}
		return tx.PutRequest(q)
	})
	return q, known, err
}

// RenewRun gives a request another run, after its first one was undone. A run that was
// undone may have been seen, so its id is not used again.
func (e *Engine) RenewRun(_ context.Context, q *store.Request) error {
	q.RunID = store.NewID("run")
	return e.Store.Update(func(tx *store.Tx) error { return tx.RenewRun(q.ID, q.RunID) })
}

// keptAnswers bounds the answers that are kept for one caller.
const keptAnswers = 64 << 20

// DroppedAnswer stands for an answer that is not kept any more, because those to newer
// requests of the caller need the space.
const DroppedAnswer = `{"dropped":true}`

// AnswerRequest keeps the answer to a request of the caller.
func (e *Engine) AnswerRequest(_ context.Context, id string, answer []byte) error {
	return e.Store.Update(func(tx *store.Tx) error {
		if err := tx.AnswerRequest(id, answer); err != nil {
			return err
		}
		return tx.TrimAnswers(e.Caller.Actor(), keptAnswers, []byte(DroppedAnswer))
	})
}

// AnswerBytes returns the size of the answers that are kept for the caller.
func (e *Engine) AnswerBytes() (total int64, err error) {
	err = e.Store.View(func(tx *store.Tx) error {
		total, err = tx.AnswerBytes(e.Caller.Actor())
		return err
	})
	return total, err
}

// ForgetRequest forgets a request that had no effect.
func (e *Engine) ForgetRequest(_ context.Context, id string) error {
	return e.Store.Update(func(tx *store.Tx) error { return tx.DropRequest(id) })
}

// Settle finishes or undoes the work that a dead process left in a cell.
func (e *Engine) Settle(ctx context.Context, name string) error {
	s, err := e.hold(ctx, name, "settle", 0)
	if err == nil {
		s.Release()
	}
	return err
}

package gvisor

import (
	"context"
	"errors"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/gvisor/frames"
)

// answerTime bounds the wait for an answer of the guest. One whose first process was
// stopped by its own commands never answers.
const answerTime = time.Minute

var errSilent = errors.New("the guest does not answer")

// longestPause bounds how long a pause excuses the guest: what saves it may hang.
const longestPause = 10 * time.Minute

// pause is when the host itself held the connection to have the guest saved. Meanwhile
// the guest hears nothing, and cannot be late with an answer.
type pause struct{ began, ended time.Time }

func (c *Cell) beginPause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pause = pause{began: time.Now()}
}

func (c *Cell) endPause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pause.ended = time.Now()
}

// moreTime returns the rest of a limit that began anew with the end of the last pause.
func (c *Cell) moreTime(limit time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch p := c.pause; {
	case p.began.IsZero():
		return 0
	case p.ended.IsZero():
		return min(limit, longestPause-time.Since(p.began))
	default:
		return limit - time.Since(p.ended)
	}
}

// question returns the number of a new question, and where its answer comes.
func (c *Cell) question() (uint32, chan []byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		return 0, nil, driver.ErrEnded
	}
	c.lastID++
	answer := make(chan []byte, 1)
	c.asked[c.lastID] = answer
	return c.lastID, answer, nil
}

// await waits for the answer to a question, at most for a time. An answer counts only
// when the question was sent: a guest can guess the number of the next one.
func (c *Cell) await(ctx context.Context, id uint32, answer <-chan []byte, sent <-chan error, limit time.Duration) ([]byte, error) {
	late := time.NewTimer(limit)
	defer late.Stop()
	var data []byte
	for sent != nil || answer != nil {
		var err error
		select {
		case err = <-sent:
			sent = nil
		case said, ok := <-answer:
			if data, answer = said, nil; !ok {
				return nil, driver.ErrEnded
			}
		case <-ctx.Done():
			err = ctx.Err()
		case <-late.C:
			if more := c.moreTime(limit); more > 0 {
				late.Reset(more)
				continue
			}
			err = errSilent
		}
		if err != nil {
			c.mu.Lock()
			delete(c.asked, id)
			c.mu.Unlock()
			return nil, err
		}
	}
	return data, nil
}

// ask asks a question of the guest. A guest that does not read holds the goroutine that
// asks until the cell ends, but not the caller.
func (c *Cell) ask(ctx context.Context, kind frames.Kind, data []byte, limit time.Duration) ([]byte, error) {
	id, answer, err := c.question()
	if err != nil {
		return nil, err
	}
	sent := make(chan error, 1)
	go func() { sent <- c.conn.Write(frames.Frame{Kind: kind, ID: id, Data: data}) }()
	return c.await(ctx, id, answer, sent, limit)
}

// quiesce stops both sides of the connection between two frames.
func (c *Cell) quiesce(ctx context.Context) error {
	id, answer, err := c.question()
	if err != nil {
		return err
	}
	sent, held := make(chan error, 1), make(chan error, 1)
	go func() {
		err := c.conn.WriteAndHold(frames.Frame{Kind: frames.Hold, ID: id})
		held <- err
		sent <- err
	}()
	if _, err = c.await(ctx, id, answer, sent, answerTime); err == nil {
		c.beginPause()
		return nil
	}
	go func() {
		if <-held == nil {
			_ = c.conn.Resume(frames.Frame{Kind: frames.Release}) // a guest that is gone needs none
		}
	}()
	return err
}

// speak ends what quiesce began. A guest that does not read blocks no caller.
func (c *Cell) speak() error {
	c.endPause()
	sent := make(chan error, 1)
	go func() { sent <- c.conn.Resume(frames.Frame{Kind: frames.Release}) }()
	select {
	case err := <-sent:
		return err
	case <-time.After(answerTime):
		return errSilent
	}
}

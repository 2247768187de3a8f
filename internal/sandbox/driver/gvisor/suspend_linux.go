package gvisor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// Suspend implements driver.Saver.
func (c *Cell) Suspend(ctx context.Context, dir string, still, keep func() error) (saved driver.Saved, err error) {
	c.saving.Lock()
	defer c.saving.Unlock()
	guest, err := c.plan.identify()
	if err == nil {
		err = c.quiesce(ctx)
	}
	if err != nil {
		return saved, fmt.Errorf("suspend: %w", err)
	}
	c.mu.Lock()
	guest.LastID = c.lastID
	c.mu.Unlock()
	m := c.moment(ctx)
	begin := time.Now()
	if err = m.expect("still\n"); err == nil {
		begin = time.Now()
		err = errors.Join(still(), ctx.Err())
	}
	if err == nil {
		m.tell("suspend\n")
		err = m.expect("saved\n")
	}
	if err == nil {
		saved.Bytes, err = c.keep(dir, guest)
	}
	if err == nil {
		err = keep()
	}
	saved.Pause = time.Since(begin)
	_ = m.output.Close() // it has nothing more to say
	if err == nil {
		c.mu.Lock()
		c.suspended = true
		c.mu.Unlock()
		return saved, nil
	}
	m.tell("go on\n")
	_ = m.input.Close()
	err = errors.Join(err, c.goOn(ctx, m.ended()), c.speak())
	return saved, errors.Join(err, c.control(context.WithoutCancel(ctx), "forget", driver.Stdio{}))
}

// momentProcess is the process of the runtime that stops and saves the guest.
type momentProcess struct {
	input  *io.PipeWriter
	output *io.PipeReader
	said   *bufio.Reader
	// ended waits for its end, and returns why it failed.
	ended func() error
}

// longestWord bounds what it says in a line.
const longestWord = 64

// moment starts such a process. What it leaves standing when it is killed must go on
// afterwards, so ctx does not end it.
func (c *Cell) moment(ctx context.Context) *momentProcess {
	in, input := io.Pipe()
	output, out := io.Pipe()
	end := make(chan error, 1)
	go func() {
		err := c.control(context.WithoutCancel(ctx), "save", driver.Stdio{In: in, Out: out})
		_ = in.Close() // for who still wants to tell it something
		_ = out.Close()
		end <- err
	}()
	return &momentProcess{
		input: input, output: output, said: bufio.NewReaderSize(output, longestWord),
		ended: func() error { return <-end },
	}
}

// expect waits until the process says a word. If it says anything else or ends, its end
// tells why.
func (m *momentProcess) expect(word string) error {
	line, err := m.said.ReadSlice('\n')
	if err == nil && string(line) == word {
		return nil
	}
	return errors.New("the guest could not be stopped and saved")
}

// tell says something to the process. One that has ended says why by itself.
func (m *momentProcess) tell(word string) { _, _ = io.WriteString(m.input, word) }

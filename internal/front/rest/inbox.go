package rest

import (
	"io"
	"sync"
)

// inboxRoom is how much unread input of a command an inbox takes before its writer
// should wait.
const inboxRoom = 1 << 20

// inbox holds the input of a command until the command reads it, so that unread input
// does not delay the messages after it. One writes, another reads.
type inbox struct {
	taken func(n int) // is called when n bytes have been read
	space chan struct{}

	mu    sync.Mutex
	ready sync.Cond // there is data, or an end
	data  []byte
	end   error // after the data
}

func newInbox(taken func(int)) *inbox {
	b := &inbox{taken: taken, space: make(chan struct{}, 1)}
	b.ready.L = &b.mu
	return b
}

// put adds input, and reports whether there is room for more. If there is none, space
// gets a value when there may be.
func (b *inbox) put(p []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end == nil {
		b.data = append(b.data, p...)
		b.ready.Signal()
	}
	return len(b.data) < inboxRoom
}

// close ends the input: the reader gets the error after what was put.
func (b *inbox) close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end == nil {
		b.end = err
		b.ready.Signal()
	}
}

// discard ends the input and forgets what was not read.
func (b *inbox) discard() {
	b.close(io.ErrClosedPipe)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = nil
	b.tell()
}

func (b *inbox) tell() {
	select {
	case b.space <- struct{}{}:
	default:
	}
}

func (b *inbox) Read(p []byte) (int, error) {
	b.mu.Lock()
	for len(b.data) == 0 && b.end == nil {
		b.ready.Wait()
	}
	n := copy(p, b.data)
	if b.data = b.data[n:]; len(b.data) == 0 {
		b.data = nil // frees it
	}
	if len(b.data) < inboxRoom {
		b.tell()
	}
	end := b.end
	b.mu.Unlock()
	if n == 0 && len(p) > 0 {
		return 0, end
	}
	b.taken(n)
	return n, nil
}

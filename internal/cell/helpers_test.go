package cell_test

import (
	"io"
	"sync"
)

// trigger closes a channel at the first byte that it is given.
type trigger struct {
	on   chan struct{}
	once sync.Once
}

func (t *trigger) Write(p []byte) (int, error) {
	t.once.Do(func() { close(t.on) })
	return len(p), nil
}

func pipe() (io.Reader, io.WriteCloser) { return io.Pipe() }

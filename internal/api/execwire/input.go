package execwire

import (
	"io"
	"sync"
)

// Sender is a caller whose input is on its way. HasRead is called with how much of it the
// command has read, so that the caller may send more. A Sender is comparable.
type Sender interface{ HasRead(n int) }

// Input holds the input of callers until the command reads it, so that unread input never
// delays a signal. It does not bound it: callers have a window, or are not listened to.
type Input struct {
	space chan struct{}

	mu    sync.Mutex
	ready sync.Cond // there is data, or an end
	data  []byte
	runs  []run // whose bytes they are, in order
	end   error // after the data
}

type run struct {
	from Sender
	n    int
}

// NewInput returns an empty input.
func NewInput() *Input {
	in := &Input{space: make(chan struct{}, 1)}
	in.ready.L = &in.mu
	return in
}

// Put adds bytes, which it copies. It reports false if the input has ended.
func (in *Input) Put(from Sender, p []byte) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.end != nil {
		return false
	}
	in.data = append(in.data, p...)
	if last := len(in.runs) - 1; last >= 0 && in.runs[last].from == from {
		in.runs[last].n += len(p)
	} else if len(p) > 0 {
		in.runs = append(in.runs, run{from: from, n: len(p)})
	}
	in.ready.Signal()
	return true
}

// Unread is how much the command has not read.
func (in *Input) Unread() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.data)
}

// Space gets a value when the command has read something, or reads no more.
func (in *Input) Space() <-chan struct{} { return in.space }

// Close ends the input: the command gets the error after what was put.
func (in *Input) Close(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.end == nil {
		in.end = err
		in.ready.Broadcast()
	}
}

// Discard ends the input and drops what was not read.
func (in *Input) Discard() {
	in.Close(io.EOF)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.data, in.runs = nil, nil
	in.tell()
}

func (in *Input) tell() {
	select {
	case in.space <- struct{}{}:
	default:
	}
}

// Read passes bytes to the command, and tells their senders.
func (in *Input) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	in.mu.Lock()
	for len(in.data) == 0 && in.end == nil {
		in.ready.Wait()
	}
	n, end := copy(p, in.data), in.end
	if in.data = in.data[n:]; len(in.data) == 0 {
		in.data = nil // frees it
	}
	read := in.takeRuns(n)
	in.tell()
	in.mu.Unlock()
	if n == 0 {
		return 0, end
	}
	for _, r := range read {
		r.from.HasRead(r.n)
	}
	return n, nil
}

// takeRuns returns whose the first n bytes are.
func (in *Input) takeRuns(n int) (read []run) {
	for n > 0 {
		r := &in.runs[0]
		part := min(n, r.n)
		read = append(read, run{r.from, part})
		n, r.n = n-part, r.n-part
		if r.n == 0 {
			in.runs = in.runs[1:]
		}
	}
	return read
}

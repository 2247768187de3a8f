package terminal

import "io"

// endOfInput is the character that a terminal's line discipline takes for the end of a file.
const endOfInput = 4

// Feed types what input writes, and then the end-of-file character: twice where it must
// first end a line. Once the terminal takes no more, nothing else is typed.
func Feed(master io.Writer, input func(io.Writer)) {
	w := &typed{w: master, last: '\n'}
	input(w)
	if w.failed {
		return
	}
	end := []byte{endOfInput}
	if w.last != '\n' && w.last != '\r' {
		end = append(end, endOfInput)
	}
	_, _ = master.Write(end) // a terminal that is gone needs no end
}

// typed remembers the last byte that was written, and whether a write failed.
type typed struct {
	w      io.Writer
	last   byte
	failed bool
}

func (t *typed) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	if n > 0 {
		t.last = p[n-1]
	}
	t.failed = t.failed || err != nil
	return n, err
}

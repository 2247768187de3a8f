package wire

// window is how many input bytes of a client may be in transit or unread by the
// command. The server keeps them in memory, so that it never stops reading a
// connection: unread input cannot delay a signal.
const window = 64 << 10

// input holds the input of clients until the command reads it. The session's
// lock guards it.
type input struct {
	data   []byte
	runs   []run // whose bytes they are, in order
	closed bool
}

type run struct {
	from *attachment
	n    int
}

func (in *input) push(from *attachment, p []byte) {
	in.data = append(in.data, p...)
	if last := len(in.runs) - 1; last >= 0 && in.runs[last].from == from {
		in.runs[last].n += len(p)
		return
	}
	in.runs = append(in.runs, run{from: from, n: len(p)})
}

// pull takes bytes and credits their senders.
func (in *input) pull(p []byte) int {
	n := copy(p, in.data)
	in.data = in.data[n:]
	if len(in.data) == 0 {
		in.data = nil
	}
	for left := n; left > 0; {
		r := &in.runs[0]
		took := min(left, r.n)
		r.from.credit += took
		r.n -= took
		left -= took
		if r.n == 0 {
			in.runs = in.runs[1:]
		}
	}
	return n
}

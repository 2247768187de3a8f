package egress

import (
	"io"
	"net"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
)

// FrameStarts returns the beginnings of the frames in pieces of what goes one way.
func FrameStarts(pieces ...[]byte) [][]byte {
	var f frames
	var out [][]byte
	for _, b := range pieces {
		for {
			var head []byte
			if head, b = f.next(b); head == nil {
				break
			}
			out = append(out, append([]byte(nil), head...))
		}
	}
	return out
}

// MemoryHeld returns what is taken of the budget.
func (p *Proxy) MemoryHeld() int64 {
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	return p.lim.Memory - p.memory.left
}

// ReceiveWhileWriting gives frames of a program to a connection whose server waits for
// the program to read, and reports whether they end it.
func (p *Proxy) ReceiveWhileWriting(b []byte) bool {
	end, _ := net.Pipe()
	w := &framedConn{c: p.newConn(end), got: len(preface)}
	defer w.c.account.close()
	w.writing.Store(true)
	w.came(b)
	return w.c.why() != nil
}

// Replies reads what an upstream sends on a websocket.
func Replies(from io.Reader, echo func() *credential.Echo) io.Reader { return newReplies(from, echo) }

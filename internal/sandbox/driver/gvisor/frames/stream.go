package frames

import (
	"fmt"
	"io"
	"math"
	"sync"
	"time"
)

// Sender sends one stream of a command to the other side.
type Sender struct {
	conn   *Conn
	id     uint32
	stream byte

	mu      sync.Mutex
	changed sync.Cond
	room    int
	writing int // how much of the room is for a piece that is being written
	stopped bool
}

// NewSender returns the sending end of a stream.
func NewSender(c *Conn, id uint32, stream byte) *Sender {
	s := &Sender{conn: c, id: id, stream: stream, room: Window}
	s.changed.L = &s.mu
	return s
}

// Copy sends what can be read until there is no more, or the other side wants none,
// and then says that it was all.
func (s *Sender) Copy(from io.Reader) {
	buf := make([]byte, piece)
	for {
		n := s.await()
		if n == 0 {
			return
		}
		n, err := from.Read(buf[:n])
		if n > 0 {
			s.take(n)
			if s.conn.Write(Frame{Kind: Data, ID: s.id, Stream: s.stream, Data: buf[:n]}) != nil {
				return // the other side is gone
			}
			s.written()
		}
		if err != nil {
			// That it cannot be read any more is not news for the other side.
			_ = s.conn.Write(Frame{Kind: End, ID: s.id, Stream: s.stream})
			return
		}
	}
}

// await waits for room and returns how much there is, at most a piece; 0 means that no
// more is wanted.
func (s *Sender) await() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.room == 0 && !s.stopped {
		s.changed.Wait()
	}
	if s.stopped {
		return 0
	}
	return min(s.room, piece)
}

func (s *Sender) take(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room -= n
	s.writing = n
}

func (s *Sender) written() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = 0
}

// Renew gives the stream its whole room: the other side is another one, which knows of
// nothing that was sent. The connection is held meanwhile, so a piece that is being
// written goes to the new side.
func (s *Sender) Renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = Window - s.writing
	s.changed.Broadcast()
}

// Taken makes room: the other side has used n bytes.
func (s *Sender) Taken(n uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int64(s.room)+int64(n) > Window {
		return fmt.Errorf("%w: %d bytes taken that were not sent", ErrMalformed, n)
	}
	s.room += int(n)
	s.changed.Broadcast()
	return nil
}

// Stop ends Copy when its reader returns.
func (s *Sender) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.changed.Broadcast()
}

// Receiver takes one stream of a command from the other side.
type Receiver struct {
	conn   *Conn
	id     uint32
	stream byte

	mu      sync.Mutex
	changed sync.Cond
	queue   [][]byte
	kept    int
	left    int // what may still come
	ended   bool
	telling time.Time // since when Copy waits for the other side to read; zero if it does not
}

// NewReceiver returns the receiving end of a stream.
func NewReceiver(c *Conn, id uint32, stream byte) *Receiver {
	r := &Receiver{conn: c, id: id, stream: stream, left: math.MaxInt}
	r.changed.L = &r.mu
	return r
}

// Put keeps a piece until Copy has used it.
func (r *Receiver) Put(data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil // what is under way when no more is wanted
	}
	if r.kept+len(data) > Window {
		return fmt.Errorf("%w: more than the room of a stream", ErrMalformed)
	}
	if len(data) >= r.left {
		data, r.ended = data[:r.left], true
	}
	r.left -= len(data)
	r.kept += len(data)
	r.queue = append(r.queue, data)
	r.changed.Broadcast()
	return nil
}

// Limit bounds what may still come: the stream ends after that.
func (r *Receiver) Limit(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = min(r.left, n)
}

// End means that nothing more comes.
func (r *Receiver) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.changed.Broadcast()
}

// Copy writes what comes, until the end. When the writer fails, the other side is told
// that no more is wanted.
func (r *Receiver) Copy(to io.Writer) error {
	for {
		data, ok := r.next()
		if !ok {
			return nil
		}
		if _, err := to.Write(data); err != nil {
			r.End()
			r.tell(Frame{Kind: Stop, ID: r.id, Stream: r.stream}, 0)
			return err
		}
		r.tell(Frame{Kind: Taken, ID: r.id, Stream: r.stream, Data: Number(uint32(len(data)))}, len(data))
	}
}

// tell says something to the other side when n bytes have been used.
func (r *Receiver) tell(f Frame, n int) {
	r.mu.Lock()
	r.kept -= n
	r.telling = time.Now()
	r.mu.Unlock()
	_ = r.conn.Write(f) // the other side is gone
	r.mu.Lock()
	r.telling = time.Time{}
	r.mu.Unlock()
}

// GiveUp ends the stream if the other side has not read for some time what Copy sends
// it. What was kept is dropped, so that Copy writes nothing more.
func (r *Receiver) GiveUp(after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.telling.IsZero() && time.Since(r.telling) >= after {
		r.queue, r.kept, r.ended = nil, 0, true
	}
}

// next waits for a piece.
func (r *Receiver) next() ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) == 0 && !r.ended {
		r.changed.Wait()
	}
	if len(r.queue) == 0 {
		return nil, false
	}
	data := r.queue[0]
	r.queue = r.queue[1:]
	return data, true
}

// Buffered returns how much has come that Copy has not used.
func (r *Receiver) Buffered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept
}

package wire

import (
	"io"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
)

func (s *exec) closeInput(a *attachment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.types(a) {
		return
	}
	s.in.Close(io.EOF)
}

// types reports whether a client has the keyboard. The caller holds the lock.
func (s *exec) types(a *attachment) bool {
	i := slices.IndexFunc(s.clients, func(c *attachment) bool { return c.shares })
	return !a.shares || i >= 0 && s.clients[i] == a
}

// resize sets the size of the terminal to that of a client that types.
func (s *exec) resize(a *attachment, size api.WindowSize) {
	s.resizing.Lock()
	defer s.resizing.Unlock()
	s.mu.Lock()
	a.size = size
	types := s.types(a)
	if types {
		s.sized = a
	}
	s.mu.Unlock()
	if types {
		_ = s.proc.Resize(size) // the command may have just ended
	}
}

// fit gives the terminal the size of the client that has got the keyboard because another
// one left.
func (s *exec) fit() {
	s.resizing.Lock()
	defer s.resizing.Unlock()
	s.mu.Lock()
	i := slices.IndexFunc(s.clients, func(c *attachment) bool { return c.shares })
	if s.ended || i < 0 || s.clients[i] == s.sized || s.clients[i].size == (api.WindowSize{}) {
		s.mu.Unlock()
		return
	}
	s.sized = s.clients[i]
	size := s.sized.size
	s.mu.Unlock()
	_ = s.proc.Resize(size) // the command may have just ended
}

package native

import (
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal"
)

// streams copies bytes between the caller and the cell.
type streams struct {
	output   sync.WaitGroup
	terminal *os.File
	input    *os.File
	files    []*os.File
}

// connect starts copying over the descriptors that the init sent: a terminal's
// master, or the parent's ends of the pipes: output, errors, input if there is
// any.
func connect(fds []int, stdio driver.Stdio, tty bool) *streams {
	s := &streams{}
	for _, fd := range fds {
		// Only this end becomes non-blocking: the cell's end is a description of
		// its own. A failure leaves a descriptor that blocks a thread.
		_ = unix.SetNonblock(fd, true)
		s.files = append(s.files, os.NewFile(uintptr(fd), "stream"))
	}
	switch {
	case tty && len(s.files) == 1:
		s.terminal = s.files[0]
		s.copyOut(stdio.Out, s.terminal)
		go feedTerminal(s.terminal, stdio.In)
	case len(s.files) >= 2:
		s.copyOut(stdio.Out, s.files[0])
		s.copyOut(stdio.Err, s.files[1])
		if len(s.files) == 3 {
			s.input = s.files[2]
			go feedPipe(s.input, stdio.In)
		}
	}
	return s
}

// copyOut copies until every process of the cell has closed its end, or the limit of
// finish has passed. When the caller's writer fails, closing ours signals the command.
func (s *streams) copyOut(to io.Writer, from *os.File) {
	if to == nil {
		to = io.Discard
	}
	s.output.Add(1)
	go func() {
		defer s.output.Done()
		// A writer that fails has told its owner: it is not news for the caller.
		if from != s.terminal {
			_, _ = io.Copy(to, mountfd.Output(from))
			_ = from.Close()
			return
		}
		output := terminal.Output(mountfd.Output(from))
		_, _ = io.Copy(to, output)
		_, _ = io.Copy(io.Discard, output)
	}()
}

// finish waits until everything that was written in the cell has been copied.
// When the cell's processes are gone there is an end to it; otherwise, for those
// that the command left behind and that hold its streams, there is a limit.
func (s *streams) finish(limit time.Duration) {
	if limit > 0 {
		deadline := time.Now().Add(limit)
		for _, f := range s.files {
			// One that cannot be limited blocks; its copy ends with the cell.
			_ = f.SetReadDeadline(deadline)
		}
	}
	if s.input != nil {
		_ = s.input.Close()
	}
	s.output.Wait()
	for _, f := range s.files {
		_ = f.Close()
	}
}

func (s *streams) resize(size driver.WindowSize) {
	if s.terminal == nil {
		return
	}
	raw, err := s.terminal.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		// The terminal of a cell that has ended has no size to change.
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
}

// feedPipe copies input until it ends or the command wants no more of it.
func feedPipe(to *os.File, from io.Reader) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
}

// feedTerminal copies input to a terminal.
func feedTerminal(to *os.File, from io.Reader) {
	terminal.Feed(to, func(w io.Writer) {
		if from != nil {
			_, _ = io.Copy(w, from)
		}
	})
}

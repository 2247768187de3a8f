package cellinit

import (
	"fmt"

	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal"
	"golang.org/x/sys/unix"
)

// cellStreams are the command's standard streams. They are made in the cell, by
// the sandbox user: so /dev/stdout can be opened again there, and nothing of
// the caller's comes in.
type cellStreams struct {
	stdin, stdout, stderr int
	// more are descriptors that the command gets after these.
	more []int
	// parent are the ends that the parent gets.
	parent []int
	// own are the command's ends.
	own []int
	tty bool
}

func newCellStreams(o *protocol.ExecOrder) (*cellStreams, error) {
	if o.TTY {
		s, err := newTerminal(o.Rows, o.Cols)
		return s, fault.At("terminal", err)
	}
	s, err := newPipes(o.Stdin)
	if err == nil && o.Warm {
		err = s.addSocket()
	}
	return s, fault.At("pipes", err)
}

func newPipes(stdin bool) (*cellStreams, error) {
	s := &cellStreams{}
	pipe := func() (reader, writer int, err error) {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			return 0, 0, fmt.Errorf("make pipe: %w", err)
		}
		return ends[0], ends[1], nil
	}
	var out, err2, in int
	var err error
	if out, s.stdout, err = pipe(); err != nil {
		return nil, err
	}
	if err2, s.stderr, err = pipe(); err != nil {
		return nil, err
	}
	s.parent = []int{out, err2}
	if stdin {
		if s.stdin, in, err = pipe(); err != nil {
			return nil, err
		}
		s.parent = append(s.parent, in)
	} else if s.stdin, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open /dev/null: %w", err)
	}
	s.own = []int{s.stdin, s.stdout, s.stderr}
	return s, nil
}

// addSocket gives the command one end of a pair of sockets, and the parent the other.
// The parent is told who sends from the first message on.
func (s *cellStreams) addSocket() error {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make sockets: %w", err)
	}
	if err := unix.SetsockoptInt(ends[1], unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		mountfd.CloseAll(ends[:])
		return fmt.Errorf("make sockets: %w", err)
	}
	s.more = append(s.more, ends[0])
	s.own, s.parent = append(s.own, ends[0]), append(s.parent, ends[1])
	return nil
}

// newTerminal makes a terminal in the cell's own devpts.
func newTerminal(rows, cols uint16) (*cellStreams, error) {
	master, slave, err := terminal.Open()
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		return nil, fmt.Errorf("size: %w", err)
	}
	return &cellStreams{
		stdin: slave, stdout: slave, stderr: slave,
		parent: []int{master}, own: []int{slave}, tty: true,
	}, nil
}

// keep is the descriptor that the init holds as long as the command runs: a
// terminal would otherwise hang up as soon as the command closes its streams
// while its children still use /dev/tty.
func (s *cellStreams) keep() int {
	if s.tty {
		return s.own[0]
	}
	return -1
}

// release closes what the init has no use for once the command has its streams.
func (s *cellStreams) release() {
	mountfd.CloseAll(s.parent)
	if !s.tty {
		mountfd.CloseAll(s.own)
	}
}

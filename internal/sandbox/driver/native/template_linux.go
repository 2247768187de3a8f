package native

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/spawn"
)

// spawner is the host's end of a template's spawner.
type spawner struct {
	mu   sync.Mutex
	conn *protocol.Conn
	id   protocol.Identity
	self *knownProcess
}

// startWithSpawner starts the first process of a template and its spawner. It returns
// when no process of the template can affect the spawner.
func (n *Driver) startWithSpawner() (*process, *spawner, error) {
	program, err := n.templateProgram()
	if err != nil {
		return nil, nil, fault.At("spawner", err)
	}
	c, childEnd, err := protocol.SocketPair()
	if err != nil {
		return nil, nil, fault.At("spawner", err)
	}
	defer childEnd.Close()
	s := &spawner{conn: c, id: callerIdentity()}
	p, err := startFirst(s.id, program, n.opt.without, protocol.Mapped{Template: true}, int(childEnd.Fd()))
	if err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	_ = childEnd.Close() // else the end of the spawner would not be noticed
	if err := s.handshake(); err != nil {
		err = p.whyNot(fault.At("spawner", err))
		p.destroy()
		_ = c.Close()
		return nil, nil, err
	}
	return p, s, nil
}

// templateProgram returns the program of the first processes of templates and branches.
func (n *Driver) templateProgram() (string, error) {
	if n.opt.TemplateProgram == nil {
		return n.opt.Executable, nil
	}
	program, err := n.opt.TemplateProgram()
	return cmp.Or(program, n.opt.Executable), err
}

// whyNot returns the reason that a first process has given for its end, or err if
// it gave none.
func (p *process) whyNot(err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	var r protocol.Report
	fds, failed := p.conn.Read(&r)
	mountfd.CloseAll(fds)
	if failed == nil && r.Kind == protocol.Failed {
		return r.Err()
	}
	return err
}

// handshake exchanges the first messages with the spawner, and opens its process.
func (s *spawner) handshake() error {
	if err := s.conn.KnowSender(); err != nil {
		return err
	}
	if err := s.conn.Write(&protocol.Spawner{ID: s.id}); err != nil {
		return err
	}
	if _, err := s.answer(0); err != nil {
		return err
	}
	// No command of the template exists yet: none could have ended the spawner, and
	// its number is not another's.
	var err error
	s.self, err = openProcess(s.conn.Sender())
	return err
}

// answer reads an answer with so many descriptors.
func (s *spawner) answer(descriptors int) ([]int, error) {
	var a protocol.Spawned
	fds, err := s.conn.Read(&a)
	switch {
	case err != nil:
		return nil, err
	case a.Problem != "":
		err = errors.New(a.Problem)
	case len(fds) != descriptors:
		err = fmt.Errorf("the spawner sent %d descriptors: %w", len(fds), unix.EPROTO)
	default:
		return fds, nil
	}
	mountfd.CloseAll(fds)
	return nil, err
}

// start starts the first process of a branch.
func (s *spawner) start() (*process, error) {
	c, childEnd, err := protocol.SocketPair()
	if err != nil {
		return nil, fault.At("control socket", err)
	}
	fds, err := s.order(int(childEnd.Fd()))
	_ = childEnd.Close()
	if err != nil {
		_ = c.Close()
		return nil, fault.At("namespaces", err)
	}
	p := &process{conn: c, pidfd: fds[0], gone: make(chan struct{})}
	if err := p.adopt(); err != nil {
		p.abandon()
		return nil, fault.At("namespaces", err)
	}
	// A process that has died meanwhile is noticed when it gets its plan.
	if err := c.Write(&protocol.Mapped{}); err != nil && !errors.Is(err, unix.EPIPE) {
		p.destroy()
		return nil, fault.At("namespaces", err)
	}
	return p, nil
}

func (s *spawner) order(control int) ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.conn.Write(&protocol.SpawnOrder{}, control); err != nil {
		return nil, err
	}
	return s.answer(1)
}

// detach takes the mounts at these paths off the template's tree.
func (s *spawner) detach(paths [][]byte) error {
	if len(paths) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.conn.Write(&protocol.SpawnOrder{Detach: paths}); err != nil {
		return err
	}
	_, err := s.answer(0)
	return err
}

func (s *spawner) close() {
	_ = s.conn.Close()
	s.self.close()
}

// adopt watches for the end of a process that is not this one's child.
func (p *process) adopt() (err error) {
	if p.pid, err = spawn.PIDOf(p.pidfd); err != nil {
		return err
	}
	fd, err := unix.FcntlInt(uintptr(p.pidfd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return err
	}
	f := os.NewFile(uintptr(fd), "first process")
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return err
	}
	go func() {
		defer close(p.gone)
		defer f.Close()
		// It cannot fail: the file is closed here only.
		_ = raw.Read(func(fd uintptr) bool { return hasEnded(int(fd)) })
	}()
	return nil
}

// hasEnded reports whether the process of a descriptor has ended.
func hasEnded(pidfd int) bool {
	events, err := pollNow(pidfd, unix.POLLIN)
	return err == nil && events != 0
}

// pollNow returns which events a descriptor has. The runtime's own signals interrupt
// even a poll that does not wait.
func pollNow(fd int, events int16) (int16, error) {
	for {
		p := []unix.PollFd{{Fd: int32(fd), Events: events}}
		if _, err := unix.Poll(p, 0); !errors.Is(err, unix.EINTR) {
			return p[0].Revents, err
		}
	}
}

// abandon ends a process that could not be adopted, and returns when it is gone: it sees
// the host's files.
func (p *process) abandon() {
	p.kill()
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = unix.Close(p.pidfd)
	_ = p.conn.Close()
}

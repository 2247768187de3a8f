package cellinit

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/driver/packages"
)

// broker executes package managers as the cell's root for commands that ask at a
// socket, one after the other. The parent gets a report of each one before it is executed.
//
// It is no boundary between the sandbox user and the cell's root: a package manager
// runs the code of its packages, and options make it run any other. The cell's root is
// held by the same namespaces, mounts, filter and Landlock rules as everybody else in
// the cell.
type broker struct {
	executor *executor
	listener int
	root     *rootThread
	answers  chan protocol.Answer
	asked    int // how many were asked for
}

// packageTime bounds how long the broker waits for a command to say what it wants, and
// to take the answer.
const packageTime = 5 * time.Second

// serve answers commands until the cell ends.
func (b *broker) serve() {
	for {
		fd, _, err := unix.Accept4(b.listener, unix.SOCK_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
			continue
		case err != nil:
			_ = unix.Close(b.listener) // clients get an error at once
			return
		}
		b.handle(fd)
	}
}

// handle serves one connection. The program that connects is not trusted.
func (b *broker) handle(fd int) {
	conn, err := protocol.NewParentConn(fd)
	if err != nil {
		return
	}
	defer conn.Close()
	var call protocol.PackageCall
	if conn.SetReadDeadline(time.Now().Add(packageTime)) != nil {
		return
	}
	streams, err := conn.Read(&call)
	if err != nil {
		return
	}
	defer mountfd.CloseAll(streams)
	status, err := b.run(conn, &call, streams)
	end := &protocol.PackageEnd{Status: uint32(status)}
	if err != nil {
		end.Problem = err.Error()
	}
	if conn.SetWriteDeadline(time.Now().Add(packageTime)) == nil {
		_ = conn.Write(end) // the client may be gone
	}
}

// run executes what a command asks for, if the parent agrees, and waits for its end.
func (b *broker) run(conn *protocol.Conn, call *protocol.PackageCall, streams []int) (unix.WaitStatus, error) {
	order, err := packageOrder(call, streams)
	if err != nil {
		return 0, err
	}
	b.asked++
	if err := b.executor.c.Write(&protocol.Report{Kind: protocol.Asked, Exec: b.asked, Args: order.Args}); err != nil {
		return 0, err
	}
	for a := range b.answers {
		if a.ID == b.asked && a.Problem != "" {
			return 0, errors.New(a.Problem)
		}
		if a.ID == b.asked {
			break
		}
	}
	status, err := b.execute(conn, order, streams)
	end := &protocol.Report{Kind: protocol.Ended, Exec: b.asked, Args: order.Args, Status: uint32(status)}
	if err != nil {
		end.Text = err.Error()
	}
	return status, errors.Join(err, b.executor.c.Write(end))
}

// execute runs a package manager to its end. If the client disconnects, it is
// asked to end.
func (b *broker) execute(conn *protocol.Conn, order *protocol.ExecOrder, streams []int) (unix.WaitStatus, error) {
	pid, done, err := b.root.start(b.executor, order, streams)
	if err != nil {
		return 0, err
	}
	_ = conn.SetReadDeadline(time.Time{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		// There is no second message: this ends with the connection, or by the deadline.
		var never protocol.PackageCall
		fds, err := conn.Read(&never)
		mountfd.CloseAll(fds)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			b.executor.terminate(pid, done)
		}
	}()
	status := <-done
	_ = conn.SetReadDeadline(time.Unix(1, 0))
	<-watched
	return status, nil
}

// standardStreams is how many descriptors come with a call.
const standardStreams = 3

// packageOrder checks what a command asks for: a package manager that only root can
// have put where it is, any arguments, and of the environment a few variables.
func packageOrder(call *protocol.PackageCall, streams []int) (*protocol.ExecOrder, error) {
	if len(streams) != standardStreams || len(call.Args) == 0 {
		return nil, unix.EINVAL
	}
	for _, arg := range call.Args {
		if strings.IndexByte(string(arg), 0) >= 0 {
			return nil, unix.EINVAL
		}
	}
	workdir := string(call.Workdir)
	if !path.IsAbs(workdir) || strings.IndexByte(workdir, 0) >= 0 {
		return nil, unix.EINVAL
	}
	manager, ok := packages.Find(string(call.Args[0]))
	if !ok {
		return nil, fmt.Errorf("%q is not run as root in the cell", call.Args[0])
	}
	program, err := rootProgram(manager)
	if err != nil {
		return nil, err
	}
	args := append([][]byte{[]byte(program)}, call.Args[1:]...)
	return &protocol.ExecOrder{Args: args, Env: protocol.Bytes(packages.Environment(protocol.Strings(call.Env))), Workdir: call.Workdir}, nil
}

// rootProgram returns the path of a package manager. Only root may be able to change
// the file and the directories above it. It may be a link to a file beside it.
func rootProgram(m packages.Manager) (string, error) {
	for _, file := range m.Paths {
		if link, err := os.Readlink(file); err == nil && link == path.Base(link) {
			file = path.Join(path.Dir(file), link)
		}
		for at := file; ; at = path.Dir(at) {
			var st unix.Stat_t
			err := unix.Lstat(at, &st)
			if isMissing(err) {
				break
			}
			if err != nil {
				return "", fmt.Errorf("%s: %w", at, err)
			}
			// Links to elsewhere have the mode 0777.
			if st.Uid != 0 || st.Mode&0o022 != 0 {
				return "", fmt.Errorf("%s: others than root can change %s", m.Name, at)
			}
			if at == "/" {
				return file, nil
			}
		}
	}
	return "", fmt.Errorf("%s is not installed in the cell", m.Name)
}

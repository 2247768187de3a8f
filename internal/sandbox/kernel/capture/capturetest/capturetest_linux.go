// Package capturetest gives tests a network namespace set up by package
// capture, with processes in it that have no capabilities. It works as root and
// as an ordinary user. Nothing is mocked. It is for tests only and knows no
// more of a cell than capture and origin do.
package capturetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The arguments that select what the test binary runs as.
const (
	firstName   = "capturetest-first"
	probePrefix = "capturetest-probe:"
)

// Probe is code of a test that runs as a separate process within the cell. Its
// standard output is its result.
type Probe func(args []string) error

// Main is for TestMain. It runs the tests, or the part that this process was
// started as, and returns the exit status.
func Main(m *testing.M, probes map[string]Probe) int {
	switch name := os.Args[0]; {
	case name == firstName:
		return status(first())
	case strings.HasPrefix(name, probePrefix):
		return status(probes[strings.TrimPrefix(name, probePrefix)](os.Args[1:]))
	}
	return m.Run()
}

func status(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Options configure the cell.
type Options struct {
	// NoIPv6 switches IPv6 off before anything is set up.
	NoIPv6 bool
	// Scratch is a directory of the host. In its place the cell has an empty
	// directory that it may write. Everything else is read-only then.
	Scratch string
}

// Cell is a namespace with processes.
type Cell struct {
	// PID is the first process, as the host sees it.
	PID int
	// Descriptors are the captured sockets; the code that uses them owns them.
	Descriptors []int
	// Setup is how long the set-up took.
	Setup time.Duration

	sock *os.File
}

type order struct {
	Name string
	Args []string
}

type reply struct {
	Output, Err string
	Setup       time.Duration
}

// Start starts a cell that ends with the test.
func Start(t testing.TB, o Options) *Cell {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer theirs.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Args = []string{firstName}
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN},
		Pdeathsig:   syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ours.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := &Cell{PID: cmd.Process.Pid, sock: ours}
	if err := send(ours, o); err != nil {
		t.Fatal(err)
	}
	var r reply
	c.Descriptors, err = receive(ours, &r)
	if err != nil || r.Err != "" {
		t.Fatalf("set up the cell: %v %s", err, r.Err)
	}
	c.Setup = r.Setup
	return c
}

// Probe runs a probe and returns what it printed.
func (c *Cell) Probe(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := c.TryProbe(name, args...)
	if err != nil {
		t.Fatalf("probe %s %q: %v", name, args, err)
	}
	return out
}

// TryProbe is Probe for probes that may fail.
func (c *Cell) TryProbe(name string, args ...string) (string, error) {
	return c.order(order{Name: name, Args: args})
}

// Run runs a command and returns what it printed.
func (c *Cell) Run(args ...string) (string, error) { return c.order(order{Args: args}) }

// order must not be called concurrently.
func (c *Cell) order(o order) (string, error) {
	if err := send(c.sock, o); err != nil {
		return "", err
	}
	var r reply
	if _, err := receive(c.sock, &r); err != nil {
		return "", err
	}
	if r.Err != "" {
		return r.Output, errors.New(r.Err)
	}
	return strings.TrimSpace(r.Output), nil
}

func send(f *os.File, v any, fds ...int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	return unix.Sendmsg(int(f.Fd()), b, oob, nil, unix.MSG_NOSIGNAL)
}

func receive(f *os.File, v any) ([]int, error) {
	b, oob := make([]byte, 128<<10), make([]byte, unix.CmsgSpace(4*16))
	var n, oobn int
	for {
		var err error
		n, oobn, _, _, err = unix.Recvmsg(int(f.Fd()), b, oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		break
	}
	if n == 0 {
		return nil, errors.New("the other side is gone")
	}
	var fds []int
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, err
	}
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, err
		}
		fds = append(fds, got...)
	}
	return fds, json.Unmarshal(b[:n], v)
}

package origin_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture/capturetest"
)

func TestMain(m *testing.M) {
	os.Exit(capturetest.Main(m, map[string]capturetest.Probe{
		"dial":    dialProbe,
		"mptcp":   mptcpProbe,
		"ask":     askProbe,
		"leave":   leaveProbe,
		"share":   shareProbe,
		"pass":    passProbe,
		"receive": receiveProbe,
		"unlink":  unlinkProbe,
		"replace": replaceProbe,
		"memfd":   memfdProbe,
		"copy":    copyProbe,
		"crowd":   crowdProbe,
		"herd":    herdProbe,
		"wait":    waitProbe,
		"link":    func(args []string) error { return os.Symlink(args[0], args[1]) },
	}))
}

// again is the name by which this binary runs one of its probes.
func again(probe string, args ...string) []string {
	return append([]string{"capturetest-probe:" + probe}, args...)
}

func newSocket() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0) }

// finish connects a socket and prints the server's answer.
func finish(fd int) error {
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{1, 2, 3, 4}, Port: 80}); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	f := os.NewFile(uintptr(fd), "connection")
	b, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	fmt.Printf("%d %s", os.Getpid(), b)
	return nil
}

func dialProbe([]string) error {
	fd, err := newSocket()
	if err != nil {
		return err
	}
	return finish(fd)
}

// mptcpProbe dials by multipath TCP, where the kernel has it: the program holds
// another socket then than the one on the wire.
func mptcpProbe([]string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
	if err != nil {
		return dialProbe(nil)
	}
	return finish(fd)
}

// askProbe sends a datagram to an address, by a connected socket or not, and
// prints the answer.
func askProbe(args []string) error {
	var c net.Conn
	var err error
	if args[0] == "connected" {
		c, err = net.Dial("udp", args[1])
	} else {
		var u *net.UDPConn
		if u, err = net.ListenUDP("udp", nil); err == nil {
			c = u
		}
	}
	if err != nil {
		return err
	}
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	if args[0] == "connected" {
		_, err = io.WriteString(c, "query")
	} else {
		_, err = c.(*net.UDPConn).WriteToUDPAddrPort([]byte("query"), netip.MustParseAddrPort(args[1]))
	}
	if err != nil {
		return err
	}
	b := make([]byte, 512)
	n, err := c.Read(b)
	fmt.Printf("%d %s", os.Getpid(), b[:n])
	return err
}

// leaveProbe connects and ends.
func leaveProbe([]string) error {
	fd, err := newSocket()
	if err != nil {
		return err
	}
	return unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{1, 2, 3, 4}, Port: 80})
}

// shareProbe gives the socket to a child that runs a program, this one if none is
// named, and connects it then.
func shareProbe(args []string) error {
	fd, err := newSocket()
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = again("wait")
	if len(args) > 0 {
		cmd = exec.Command(args[0])
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "socket")}
	if err := cmd.Start(); err != nil {
		return err
	}
	// It is the new program when it answers.
	if _, err := io.WriteString(in, "x"); err != nil {
		return err
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		return err
	}
	err = finish(fd)
	return errors.Join(err, in.Close(), cmd.Wait())
}

// waitProbe copies its input to its output, as cat does.
func waitProbe([]string) error {
	_, err := io.Copy(struct{ io.Writer }{os.Stdout}, struct{ io.Reader }{os.Stdin})
	return err
}

// passProbe sends a socket to a process of another executable, keeps none, and
// lets that one connect it.
func passProbe(args []string) error {
	fd, err := newSocket()
	if err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(pair[0], []byte{1}, unix.UnixRights(fd), nil, 0); err != nil {
		return err
	}
	if err := unix.Close(fd); err != nil {
		return err
	}
	cmd := exec.Command(args[0])
	cmd.Args = again("receive")
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(pair[1]), "pair")}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func receiveProbe([]string) error {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(3, make([]byte, 1), oob, 0)
	if err != nil {
		return err
	}
	m, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		return err
	}
	fds, err := unix.ParseUnixRights(&m[0])
	if err != nil {
		return err
	}
	return finish(fds[0])
}

// unlinkProbe removes its own executable first.
func unlinkProbe(args []string) error {
	if err := os.Remove(args[0]); err != nil {
		return err
	}
	return dialProbe(nil)
}

// replaceProbe puts a file of the name that the kernel gives a removed one in its
// place.
func replaceProbe(args []string) error {
	for _, name := range []string{args[0], args[0] + " (deleted)"} {
		_ = os.Remove(name)
		if err := os.WriteFile(name, []byte("other"), 0o755); err != nil {
			return err
		}
	}
	return dialProbe(nil)
}

// memfdProbe runs from a file that never had a name.
func memfdProbe([]string) error {
	fd, err := unix.MemfdCreate("tool", 0)
	if err != nil {
		return err
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	if _, err := os.NewFile(uintptr(fd), "memfd").Write(self); err != nil {
		return err
	}
	return unix.Exec("/proc/self/fd/"+strconv.Itoa(fd), again("dial"), nil)
}

// copyProbe copies a program, this one if none is named, and runs the copy.
func copyProbe(args []string) error {
	b, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[1], b, 0o755); err != nil {
		return err
	}
	if len(args) == 2 {
		return nil
	}
	return unix.Exec(args[1], args[2:], nil)
}

// crowdProbe starts processes with descriptors and connects again and again.
func crowdProbe(args []string) error {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	null, err := os.Open("/dev/null")
	if err != nil {
		return err
	}
	var files []*os.File
	for range 20 {
		files = append(files, null)
	}
	for range count {
		cmd := exec.Command("/bin/cat")
		cmd.ExtraFiles = files
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		defer func() { _, _ = in.Close(), cmd.Wait() }()
	}
	times, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for range times {
		if err := dialProbe(nil); err != nil {
			return err
		}
	}
	return nil
}

// herdProbe connects from many goroutines at once.
func herdProbe([]string) error {
	const count = 40
	errs := make(chan error)
	for range count {
		go func() { errs <- dialProbe(nil) }()
	}
	var all error
	for range count {
		all = errors.Join(all, <-errs)
	}
	return all
}

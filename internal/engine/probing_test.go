package engine_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// hostThings makes the things of the host that the probes look for, and checks
// that they exist.
func hostThings(t *testing.T, w *world) []string {
	t.Helper()
	var listeners []string
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", "0.0.0.0:0"} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue // no IPv6 here
		}
		t.Cleanup(func() { _ = l.Close() })
		listeners = append(listeners, l.Addr().String())
		if strings.HasPrefix(addr, "0.") {
			listeners = append(listeners, ownAddresses(t, l)...)
		}
	}
	witness := filepath.Join(t.TempDir(), "witness")
	w.ok(os.WriteFile(witness, []byte("seen"), 0o644))
	socket := filepath.Join(w.home, "probe.sock")
	abstract := "@forkcell-probe-" + strconv.Itoa(os.Getpid())
	for _, addr := range []string{socket, abstract} {
		l, err := net.Listen("unix", addr)
		w.ok(err)
		t.Cleanup(func() { _ = l.Close() })
		w.ok(dial("unix", addr))
	}
	w.ok(dial("tcp", listeners[0]))
	key := 0x466f0000 + os.Getpid()
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o666)
	w.ok(err)
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	return []string{
		"PROBE_HOME=" + w.home, "PROBE_SOURCE=" + w.source, "PROBE_PID=" + strconv.Itoa(os.Getpid()), "PROBE_SOCKET=" + socket,
		"PROBE_WITNESS=" + witness, "PROBE_ABSTRACT=" + abstract, "PROBE_SHM=" + strconv.Itoa(key), "PROBE_LISTENERS=" + strings.Join(listeners, ","),
	}
}

// ownAddresses are the other addresses at which a listener can be reached.
func ownAddresses(t *testing.T, l net.Listener) []string {
	t.Helper()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			out = append(out, net.JoinHostPort(ip.IP.String(), port))
		}
	}
	return out
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func dial(kind, addr string) error {
	c, err := net.Dial(kind, addr)
	if err != nil {
		return err
	}
	return c.Close()
}

func socket(domain, kind, proto int) error {
	fd, err := unix.Socket(domain, kind, proto)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// heldCell reports that a probe found nothing.
func heldCell(format string, args ...any) error { return fmt.Errorf("held: "+format, args...) }

func names(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// onlyHolds is stopped if a directory has no other names.
func onlyHolds(dir, name string) error {
	if got := names(dir); !slices.Equal(got, []string{name}) {
		return nil
	}
	return heldCell("%s holds only %s", dir, name)
}

func sameNames(a, b string) error {
	if !slices.Equal(names(a), names(b)) {
		return nil
	}
	return heldCell("%s is %s", b, a)
}

func noDisks() error {
	for _, n := range names("/dev") {
		var st unix.Stat_t
		if unix.Stat("/dev/"+n, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK {
			return nil
		}
	}
	return heldCell("no block devices")
}

// onlyOwnProcesses checks that pid 1 has no descendants but this program.
func onlyOwnProcesses() error {
	seen := 0
	for _, n := range names("/proc") {
		if pid, err := strconv.Atoi(n); err == nil {
			seen++
			if pid != 1 && pid != os.Getpid() {
				return nil
			}
		}
	}
	return heldCell("%d processes", seen)
}

func stealDescriptor() error {
	fd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.PidfdGetfd(fd, 0, 0)
	return err
}

// noDescriptors checks which descriptors a plain program gets.
func noDescriptors() error {
	out, err := exec.Command("ls", "/proc/self/fd").Output()
	if err != nil {
		return err
	}
	if got := strings.Fields(string(out)); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
		return nil
	}
	return heldCell("its own four")
}

// noTerminal: no stream is a terminal, and there is no controlling one to type
// into.
func noTerminal() error {
	for fd := range 3 {
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
			return nil
		}
		key := byte('x')
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSTI, int(key)); err == nil {
			return nil
		}
	}
	_, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	return err
}

func noEnvironment() error {
	known := []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR", "FORKCELL", insideWhat}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.Contains(known, name) && !strings.HasPrefix(name, "PROBE_") {
			return nil
		}
	}
	return heldCell("only what was built")
}

func raiseCapabilities() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: ^uint32(0), Permitted: ^uint32(0)}}
	return unix.Capset(&head, &data[0])
}

func openByHandle() error {
	handle, mount, err := unix.NameToHandleAt(unix.AT_FDCWD, "/usr", 0)
	if err != nil {
		return err
	}
	_ = mount
	fd, err := unix.OpenByHandleAt(unix.AT_FDCWD, handle, unix.O_RDONLY)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// gains is stopped unless a program runs something as root.
func gains(args ...string) error {
	out, err := exec.Command(args[0], args[1:]...).Output()
	if err == nil && strings.TrimSpace(string(out)) == "0" {
		return nil
	}
	return heldCell("%v, %q", err, out)
}

// setuidCopy makes a setuid program and looks whom it runs as.
func setuidCopy() error {
	id, err := exec.LookPath("id")
	if err != nil {
		return err
	}
	data, err := os.ReadFile(id)
	if err == nil {
		err = errors.Join(os.WriteFile("own-id", data, 0o755), os.Chmod("own-id", 0o6755))
	}
	if err != nil {
		return err
	}
	defer os.Remove("own-id")
	return gains("./own-id", "-u")
}

func statusLine(want string) error {
	data, err := os.ReadFile("/proc/self/status")
	if err == nil && strings.Contains(string(data), want+"\n") {
		return heldCell("%s", want)
	}
	return err
}

func onlyLoopback() error {
	list, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback == 0 {
			return nil
		}
	}
	return heldCell("loopback only")
}

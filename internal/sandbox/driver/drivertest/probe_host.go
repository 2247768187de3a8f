package drivertest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal/terminaltest"
)

// host has the things outside the cell that the probes look for.
type host struct {
	t     *testing.T
	suite Suite
	vars  []string
	give  []*os.File
}

func (h *host) env() []string          { return append([]string{"PATH=" + defaultPath}, h.vars...) }
func (h *host) inherited() []*os.File  { return h.give }
func (h *host) set(name string, v any) { h.vars = append(h.vars, fmt.Sprintf("PROBE_%s=%v", name, v)) }

func (h *host) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// file makes one with that mode, whatever the umask is.
func (h *host) file(path, text string, mode os.FileMode) {
	h.t.Helper()
	h.ok(os.WriteFile(path, []byte(text), 0o600))
	h.ok(os.Chmod(path, mode))
}

func (h *host) dir(path string, mode os.FileMode) {
	h.t.Helper()
	h.ok(os.MkdirAll(path, 0o755))
	h.ok(os.Chmod(path, mode))
}

func (s Suite) startHost(t *testing.T, dir string) *host {
	t.Helper()
	h := &host{t: t, suite: s}
	h.files(dir)
	h.shown(filepath.Join(dir, "shown"))
	h.listeners(dir)
	h.processes(dir)
	h.descriptors(dir)
	name, err := os.Hostname()
	h.ok(err)
	h.set("NODE", name)
	passwd, err := os.ReadFile("/etc/passwd")
	h.ok(err)
	sum := sha256.Sum256(passwd)
	h.set("PASSWD", hex.EncodeToString(sum[:]))
	return h
}

// files are a workspace, and what lies outside of every cell.
func (h *host) files(dir string) {
	base := filepath.Join(dir, "base")
	h.dir(base, 0o755)
	h.copy("/proc/self/exe", filepath.Join(base, "probe"), 0o755)
	h.file(filepath.Join(base, ".env"), secret, 0o644)
	h.file(filepath.Join(base, "fixed"), secret, 0o666)
	h.set("BASE", base)
	// The workspace's owner knows that the init is looked at as /proc/self.
	h.ok(os.Symlink("/proc/self/exe", filepath.Join(base, "self")))
	h.file(filepath.Join(base, "script"), "#!/proc/self/exe\n", 0o755)
	h.ok(os.Symlink("/proc/self/fd/5", filepath.Join(base, "descriptor")))
	h.file(filepath.Join(dir, "witness"), secret, 0o644)
	h.file(filepath.Join(dir, "open"), secret, 0o666)
	h.set("DIR", dir)
	h.set("ROOT", os.Geteuid() == 0)
	if os.Geteuid() == 0 {
		// It is root's in the cell.
		suid := filepath.Join(base, "suid")
		h.copy("/usr/bin/id", suid, 0o755)
		h.ok(os.Chown(suid, h.suite.RootOnDisk, h.suite.RootOnDisk))
		h.ok(unix.Chmod(suid, 0o4755))
		h.capable(filepath.Join(base, "capable"))
		h.file(filepath.Join(base, "foreign"), secret, 0o600)
		h.ok(os.Chown(filepath.Join(base, "foreign"), 5, 5))
	}
}

func (h *host) copy(from, to string, mode os.FileMode) {
	h.t.Helper()
	in, err := os.Open(from)
	h.ok(err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	h.ok(err)
	_, err = io.Copy(out, in)
	h.ok(err)
	h.ok(out.Close())
	h.ok(os.Chmod(to, mode))
}

// shown is a path of the host that the cells see read-only.
func (h *host) shown(dir string) {
	h.dir(dir, 0o777)
	h.dir(filepath.Join(dir, "sub"), 0o777)
	h.set("SHOWN", dir)
	for _, name := range []string{"write", "truncate", "remove", "rename", "link", "reopen", "times", "attribute", "lock"} {
		h.file(filepath.Join(dir, name), secret, 0o666)
	}
	h.listen("unix", filepath.Join(dir, "socket"))
	h.ok(os.Chmod(filepath.Join(dir, "socket"), 0o777))
	fifo := filepath.Join(dir, "fifo")
	h.ok(unix.Mkfifo(fifo, 0o666))
	h.ok(os.Chmod(fifo, 0o666))
	held, err := os.OpenFile(fifo, os.O_RDWR, 0)
	h.ok(err)
	h.t.Cleanup(func() { _ = held.Close() })
	_, err = held.WriteString(secret + secret + secret)
	h.ok(err)
	lock, err := os.Open(filepath.Join(dir, "lock"))
	h.ok(err)
	h.t.Cleanup(func() { _ = lock.Close() })
	h.ok(unix.Flock(int(lock.Fd()), unix.LOCK_EX))
}

// listen accepts connections and hangs up.
func (h *host) listen(network, addr string) net.Listener {
	h.t.Helper()
	l, err := net.Listen(network, addr)
	h.ok(err)
	h.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return l
}

func (h *host) listeners(dir string) {
	l := h.listen("tcp", "127.0.0.1:0")
	h.set("TCP", l.Addr())
	abstract := "@" + filepath.Base(dir)
	h.listen("unix", abstract)
	h.set("ABSTRACT", abstract)
	socket := filepath.Join(dir, "daemon.sock")
	h.listen("unix", socket)
	h.ok(os.Chmod(socket, 0o777))
	h.set("DAEMON", socket)
}

// processes are one that the cell's user could signal, and memory to share.
func (h *host) processes(dir string) {
	victim := exec.Command("sleep", "1000")
	if os.Geteuid() == 0 {
		victim.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(h.suite.UserOnHost), Gid: uint32(h.suite.UserOnHost)}}
	}
	h.ok(victim.Start())
	h.t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	h.set("VICTIM", victim.Process.Pid)
	shm := int(crc32.ChecksumIEEE([]byte(dir)) >> 1)
	id, err := unix.SysvShmGet(shm, 4096, unix.IPC_CREAT|0o666)
	h.ok(err)
	h.t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	h.set("SHM", shm)
}

// descriptors returns those that the caller has left open, from 3 on.
func (h *host) descriptors(dir string) {
	open := func(path string) *os.File {
		f, err := os.Open(path)
		h.ok(err)
		h.t.Cleanup(func() { _ = f.Close() })
		return f
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	h.ok(err)
	mine, theirs := os.NewFile(uintptr(pair[0]), "socket"), os.NewFile(uintptr(pair[1]), "socket")
	h.t.Cleanup(func() { _, _ = mine.Close(), theirs.Close() })
	h.give = []*os.File{open(os.DevNull), open(filepath.Join(dir, "witness")), open(dir), theirs}
	for range terminals {
		h.give = append(h.give, h.terminal())
	}
	for i, name := range []string{"CONTROL", "FILE_FD", "DIR_FD", "SOCKET_FD", "TTY_FD"} {
		h.set(name, 3+i)
	}
}

// terminals is how many the caller has left open: one for each configuration of
// the probe that takes one.
const terminals = 3

// terminal is one that is nobody's yet.
func (h *host) terminal() *os.File {
	h.t.Helper()
	master, slave, err := terminaltest.Open()
	h.ok(err)
	h.t.Cleanup(func() { _, _ = master.Close(), slave.Close() })
	return slave
}

// capable makes a program with file capabilities, for the user namespace of
// the cell.
func (h *host) capable(path string) {
	h.t.Helper()
	h.copy("/bin/cat", path, 0o755)
	h.ok(unix.Setxattr(path, "security.capability", everyCapability(h.suite.RootOnDisk), 0))
}

// everyCapability is an attribute that gives every one, at once, in the user
// namespace whose root this is.
func everyCapability(root int) []byte {
	const revision3, effective = 0x03000000, 1
	var b []byte
	for _, word := range []uint32{revision3 | effective, 0xffffffff, 0, 0x1ff, 0, uint32(root)} {
		b = binary.LittleEndian.AppendUint32(b, word)
	}
	return b
}

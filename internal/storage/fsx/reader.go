package fsx

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ReaderName is argv[0] of the elevated reader: a program that uses this
// package calls ServeReader first thing when it is started under this name.
const ReaderName = "forkcell-reader"

// readerStart bounds the wait for the reader's first answer.
const readerStart = 20 * time.Second

// reader is the caller's side of the elevated reader: this same program,
// running in a user namespace that maps only the caller, where it may read the
// caller's own files and directories whatever their mode. It has no other
// right: it cannot write, and files of other owners or groups are as closed to
// it as to the caller.
type reader struct {
	mu   sync.Mutex
	sock int
	buf  []byte
}

// sharedReader starts the reader when it is first needed, once a process. It
// ends when this process does.
var sharedReader = sync.OnceValues(startReader)

// mayElevate reports whether the elevated reader might succeed where err occurred.
// Root reads everything itself, and the reader never starts another.
func mayElevate(err error) bool {
	return err == unix.EACCES && os.Geteuid() != 0 && os.Args[0] != ReaderName //nolint:errorlint // straight from the kernel
}

func startReader() (*reader, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "reader")
	defer func() { _ = theirs.Close() }()
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{ReaderName}, Dir: "/", Env: []string{},
		ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			AmbientCaps: []uintptr{unix.CAP_DAC_READ_SEARCH},
		},
	}
	if err := cmd.Start(); err != nil {
		_ = unix.Close(pair[0])
		return nil, fmt.Errorf("start in a user namespace: %w", err)
	}
	r := &reader{sock: pair[0], buf: make([]byte, maxMessage)}
	limit := unix.NsecToTimeval(int64(readerStart))
	err = errors.Join(mapCaller(cmd.Process.Pid), unix.SetsockoptTimeval(r.sock, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
	if err == nil {
		_, _, err = r.ask(request{op: opHello}, -1)
	}
	if err == nil {
		err = unix.SetsockoptTimeval(r.sock, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{})
	}
	if err != nil {
		_ = unix.Close(r.sock)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("first answer: %w", err)
	}
	go func() { _ = cmd.Wait() }()
	return r, nil
}

// mapCaller maps the caller to itself in the user namespace of a process that has
// executed its program. Before that its memory is a copy of this process's, and if
// this cannot be dumped, the kernel lets nobody but root write the maps.
func mapCaller(pid int) error {
	for _, f := range []struct{ name, text string }{
		{"uid_map", fmt.Sprintf("%[1]d %[1]d 1\n", os.Geteuid())},
		{"setgroups", "deny"},
		{"gid_map", fmt.Sprintf("%[1]d %[1]d 1\n", os.Getegid())},
	} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, f.name), []byte(f.text), 0); err != nil {
			return fmt.Errorf("map the caller: %w", err)
		}
	}
	return nil
}

// ask sends one request with one descriptor and waits for the answer.
func (r *reader) ask(q request, fd int) (payload []byte, got int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	if err := retry(func() error { return unix.Sendmsg(r.sock, q.encode(), rights, nil, unix.MSG_NOSIGNAL) }); err != nil {
		return nil, -1, err
	}
	msg, got, err := receive(r.sock, r.buf)
	if err != nil {
		return nil, -1, err
	}
	errno, payload, err := decodeAnswer(msg)
	if err == nil && errno != 0 {
		err = errno
	}
	if err != nil && got >= 0 {
		_ = unix.Close(got)
		got = -1
	}
	return append([]byte(nil), payload...), got, err
}

// consult sends a request to the shared reader. The error is the reader's, or
// cause if there is no reader.
func consult(q request, fd int, cause error) ([]byte, int, error) {
	r, err := sharedReader()
	if err != nil {
		return nil, -1, fmt.Errorf("%w (and the elevated reader cannot help: %w)", cause, err)
	}
	payload, got, err := r.ask(q, fd)
	if errors.Is(err, errBroken) {
		return nil, -1, fmt.Errorf("%w (and the elevated reader failed: %w)", cause, err)
	}
	return payload, got, err
}

func elevatedOpen(fd int, path string, flags int, cause error) (int, error) {
	_, got, err := consult(request{op: opOpen, flags: uint32(flags), name: path}, fd, cause)
	if err == nil && got < 0 {
		return -1, cause
	}
	return got, err
}

func elevatedRoot(path string, cause error) (int, error) {
	here, err := unix.Open(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, cause
	}
	defer func() { _ = unix.Close(here) }()
	_, got, err := consult(request{op: opRoot, name: path}, here, cause)
	if err == nil && got < 0 {
		return -1, cause
	}
	return got, err
}

// elevatedXattr reads one attribute into buf, or the list of names when attr is
// empty.
func elevatedXattr(p place, attr string, buf []byte, cause error) (int, error) {
	payload, _, err := consult(request{op: opXattr, name: p.name, attr: attr}, p.fd, cause)
	if err != nil {
		return 0, err
	}
	if len(payload) > len(buf) {
		return 0, unix.ERANGE
	}
	return copy(buf, payload), nil
}

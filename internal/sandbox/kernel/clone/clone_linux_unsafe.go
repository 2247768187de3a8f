package clone

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is laid out as the assembly expects it.
type call struct {
	number uintptr
	args   [6]uintptr
	errno  uintptr // set by the process
}

// arguments are those of clone3. The threads' ids, the stack and the local
// storage are left as they are.
type arguments struct {
	flags      uint64
	pidFD      uint64
	_, _       uint64
	exitSignal uint64
	_, _, _    uint64
}

// cloneAndCall makes a process and returns in its parent. The process makes the
// calls and does not return. It does not use the stack, which is its parent's.
// What it uses must be on the heap, which does not move: so there is no noescape
// directive.
func cloneAndCall(args *arguments, size uintptr, calls *call, n uintptr) (pid, errno uintptr)

// Bytes returns the address of a zero-terminated copy of text, for a call.
func (s *Script) Bytes(text string) (uintptr, error) {
	p, err := unix.BytePtrFromString(text)
	if err != nil {
		return 0, err
	}
	s.keep = append(s.keep, p)
	return uintptr(unsafe.Pointer(p)), nil
}

// Point keeps a value and returns its address, for a call.
func Point[T any](s *Script, value T) uintptr {
	p := new(T)
	*p = value
	s.keep = append(s.keep, p)
	return uintptr(unsafe.Pointer(p))
}

// Exec adds the execution of a program, with the signals that the thread had
// blocked before. It should be the last call.
func (s *Script) Exec(path string, args, env []string) error {
	file, err := s.Bytes(path)
	if err != nil {
		return err
	}
	argv, err := s.list(args)
	if err != nil {
		return err
	}
	envv, err := s.list(env)
	if err != nil {
		return err
	}
	s.mask = new(uint64)
	s.keep = append(s.keep, s.mask)
	s.Do("unblock signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(s.mask)), 0, unsafe.Sizeof(*s.mask))
	s.Do("execute "+path, unix.SYS_EXECVE, file, argv, envv)
	return nil
}

func (s *Script) list(texts []string) (uintptr, error) {
	list, err := syscall.SlicePtrFromStrings(texts)
	if err != nil {
		return 0, err
	}
	s.keep = append(s.keep, list)
	return uintptr(unsafe.Pointer(unsafe.SliceData(list))), nil
}

// Start makes a process in the namespaces of flags. The process is a child of the
// calling thread, has a copy of the descriptors unless flags say otherwise, and
// has every signal blocked. The caller keeps the script until the process has
// executed a program or ended; only then is its copy of a descriptor that was
// closed here closed too.
func (s *Script) Start(flags uint64) (pid, pidfd int, err error) {
	fd := new(int32)
	s.keep = append(s.keep, fd)
	args := &arguments{
		// A signal handler would be Go's, and run in the parent's memory.
		flags:      flags | unix.CLONE_VM | unix.CLONE_PIDFD | unix.CLONE_CLEAR_SIGHAND,
		pidFD:      uint64(uintptr(unsafe.Pointer(fd))),
		exitSignal: uint64(unix.SIGCHLD),
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all, before := ^uint64(0), uint64(0)
	if err := sigmask(&all, &before); err != nil {
		return 0, -1, fmt.Errorf("block signals: %w", err)
	}
	if s.mask != nil {
		*s.mask = before
	}
	child, errno := cloneAndCall(args, unsafe.Sizeof(*args), unsafe.SliceData(s.calls), uintptr(len(s.calls)))
	if err := sigmask(&before, nil); err != nil {
		return 0, -1, fmt.Errorf("unblock signals: %w", err)
	}
	if errno != 0 {
		return 0, -1, os.NewSyscallError("clone3", syscall.Errno(errno))
	}
	return int(child), int(*fd), nil
}

// sigmask sets the thread's blocked signals. Those of the kernel are 64 bits.
func sigmask(set, old *uint64) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK,
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), unsafe.Sizeof(*set), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

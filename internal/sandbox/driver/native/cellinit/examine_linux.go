package cellinit

import (
	"errors"
	"fmt"
	"os"
	"path"
	"syscall"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"golang.org/x/sys/unix"
)

// examine tries, as weak as a command of the cell, what has to be refused, and
// says what was not. It makes no call that a listener would have to answer.
func examine(p *protocol.Examination) []protocol.Finding {
	list := examineNamespaces(p.Host)
	for _, c := range []struct {
		name string
		try  func() error
	}{
		{protocol.HoldsNoNewPrivs, func() error { return is(unix.PR_GET_NO_NEW_PRIVS, 1) }},
		{protocol.HoldsCapabilities, noCapabilities},
		{protocol.HoldsHiddenInit, func() error { return is(unix.PR_GET_DUMPABLE, 0) }},
		{protocol.HoldsSeccomp, func() error { return checkRefused(unix.EPERM, readClock()) }},
		{protocol.HoldsLandlock, func() error {
			return checkRefused(unix.EACCES, unix.Mknod("/dev/shm/device", unix.S_IFCHR|0o600, 0))
		}},
		{protocol.HoldsDeadSockets, func() error { return checkRefused(unix.ECONNREFUSED, connectTo(string(p.Socket))) }},
		{protocol.HoldsProc, coveredProc},
		{protocol.HoldsReadOnly, readOnlySystem},
		{protocol.HoldsInside, noNestedUser},
	} {
		list = append(list, newFinding(c.name, c.try()))
	}
	return list
}

// checkRefused returns nil if a call gave the expected error.
func checkRefused(want, got error) error {
	switch {
	case errors.Is(got, want):
		return nil
	case got == nil:
		return errors.New("a forbidden operation succeeded")
	}
	return fmt.Errorf("it could not be tested: %w", got)
}

func newFinding(name string, err error) protocol.Finding {
	if err != nil {
		return protocol.Finding{Name: name, Problem: err.Error()}
	}
	return protocol.Finding{Name: name}
}

func examineNamespaces(host map[string]string) []protocol.Finding {
	_, names := protocol.Namespaces()
	var list []protocol.Finding
	for _, name := range names {
		own, err := os.Readlink("/proc/self/ns/" + name)
		if err == nil && own == host[name] {
			err = errors.New("the cell has the caller's")
		}
		list = append(list, newFinding(name+" namespace", err))
	}
	return list
}

// is reads a setting of the process.
func is(setting int, want int) error {
	got, err := unix.PrctlRetInt(setting, 0, 0, 0, 0)
	if err == nil && got != want {
		err = fmt.Errorf("it is %d", got)
	}
	return err
}

func noCapabilities() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&hdr, &have[0]); err != nil {
		return err
	}
	if have != [2]unix.CapUserData{} {
		return fmt.Errorf("the command would have %#x", have[0].Permitted|have[1].Permitted)
	}
	for c := uintptr(0); ; c++ {
		in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			return nil // the last one was before
		}
		if in != 0 {
			return fmt.Errorf("capability %d can be gained", c)
		}
	}
}

// readClock reads the clock's settings. Every process may, and the filter
// denies it without a report.
func readClock() error {
	_, err := unix.Adjtimex(&unix.Timex{})
	return err
}

func connectTo(socket string) error {
	// By the descriptor of its directory: a socket's name must be short.
	dir, err := unix.Open(path.Dir(socket), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir, path.Base(socket))})
}

func coveredProc() error {
	for _, name := range maskedProc() {
		// A process that may read everything finds the cover, which is empty.
		text, _ := os.ReadFile("/proc/" + name)
		names, _ := os.ReadDir("/proc/" + name)
		if len(text)+len(names) > 0 {
			return fmt.Errorf("/proc/%s can be read", name)
		}
	}
	var st unix.Statfs_t
	if err := unix.Statfs("/proc/sys", &st); err != nil {
		return err
	}
	if st.Flags&unix.ST_RDONLY == 0 {
		return errors.New("/proc/sys is not read-only")
	}
	return nil
}

func readOnlySystem() error {
	for _, dir := range []string{"/", "/etc", "/usr"} {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		if st.Flags&unix.ST_RDONLY == 0 {
			return fmt.Errorf("%s is not read-only", dir)
		}
	}
	return nil
}

// noNestedUser tries to make a user namespace. The program that would run in it
// does not exist: when that is what fails, the namespace was made.
func noNestedUser() error {
	_, err := syscall.ForkExec("/proc/no-such-program", []string{"x"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}})
	if errors.Is(err, unix.ENOENT) {
		return errors.New("a user namespace can be made in a cell")
	}
	// Where the filter is missing the limit still holds.
	if errors.Is(err, unix.ENOSPC) {
		return nil
	}
	return checkRefused(unix.EPERM, err)
}

// beNoticed makes a call that the filter reports.
func beNoticed() {
	const readImpliesExec = 0x0400000
	_, _, _ = unix.RawSyscall(unix.SYS_PERSONALITY, readImpliesExec, 0, 0)
}

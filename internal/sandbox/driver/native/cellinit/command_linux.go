package cellinit

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// DefaultPath is where commands are looked up when the environment has no PATH.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// becomeSandbox takes everything from the calling thread that the command must
// not have. The command is forked from this thread and inherits it all. With
// privileged it stays root of its user namespace.
func becomeSandbox(id protocol.Identity, privileged bool, w protocol.Without) error {
	if !w.Has(control.Signals) {
		adoptIgnored()
		quietSignals()
	}
	return weakenThread(id, privileged, w)
}

// unblockSignals gives the calling thread an empty signal mask.
func unblockSignals(w protocol.Without) error {
	if w.Has(control.Signals) {
		return nil
	}
	return unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil)
}

// noNewPrivs lets no program give the calling thread more rights.
func noNewPrivs(w protocol.Without) error {
	if w.Has(control.NoNewPrivs) {
		return nil
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// hideInit lets no process of the cell look into the init, which shares its user.
func hideInit(w protocol.Without) error {
	visible := uintptr(0)
	if w.Has(control.HiddenInit) {
		visible = 1
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, visible, 0, 0, 0)
}

// adoptIgnored makes the runtime handle the two signals that it leaves alone when
// the caller had them ignored, as nohup does. Then quietSignals can ignore them,
// and commands get the default all the same; with the default here, a command
// that sends one while the init is forking would end its cell.
func adoptIgnored() {
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// dropPrivileges leaves the thread the sandbox user, without capabilities. With
// privileged it keeps both.
func dropPrivileges(id protocol.Identity, privileged bool, w protocol.Without) error {
	if privileged {
		return nil
	}
	if w.Has(control.Capabilities) {
		return fault.At("capabilities", keepCapabilities(id, w))
	}
	var keep unix.CapUserData
	if id.Super {
		for _, c := range superCapabilities() {
			keep.Effective |= 1 << c
		}
		keep.Permitted, keep.Inheritable = keep.Effective, keep.Effective
	}
	for c := uintptr(0); ; c++ {
		if c < 32 && keep.Permitted&(1<<c) != 0 {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) && c > 0 {
			break
		}
		if err != nil {
			return fault.At("capability bounding set", err)
		}
	}
	if id.Root && !w.Has(control.IDs) {
		if err := setIDs(id); err != nil {
			return fault.At("sandbox user", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fault.At("ambient capabilities", err)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	sets := [2]unix.CapUserData{keep}
	return fault.At("capabilities", unix.Capset(&hdr, &sets[0]))
}

// leaveKeyring gives the command a session keyring of its own: the keys in the
// caller's would come along. It returns what is not as it should be.
func leaveKeyring(w protocol.Without) (degraded []string, err error) {
	if w.Has(control.Keyring) {
		return nil, nil
	}
	_, _, no := unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	switch no {
	case 0:
		return nil, nil
	case unix.ENOSYS, unix.EPERM:
		// A call that is refused to the init is also refused to the command.
		return nil, nil
	case unix.EDQUOT:
		return []string{"session keyring: the quota is used up; the caller's is visible"}, nil
	}
	return nil, fault.At("session keyring", no)
}

// setIDs changes this thread only: Go's own functions would go through all of
// them, and only this one forks.
func setIDs(id protocol.Identity) error {
	if _, _, no := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); no != 0 {
		return fmt.Errorf("setgroups: %w", no)
	}
	gid, uid := uintptr(id.GID), uintptr(id.UID)
	if id.Super {
		gid, uid = 0, 0
	}
	if _, _, no := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); no != 0 {
		return fmt.Errorf("setresgid: %w", no)
	}
	if _, _, no := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); no != 0 {
		return fmt.Errorf("setresuid: %w", no)
	}
	return nil
}

// execute starts the command and returns its pid once it has been executed, and when it
// was forked: this thread may be woken long after the command's first instruction.
func execute(o *protocol.ExecOrder, s *cellStreams, w protocol.Without) (pid int, began time.Time, err error) {
	if err := enterWorkdir(string(o.Workdir), w); err != nil {
		return 0, began, fault.Wrap("workdir", fault.CauseWorkdir, fmt.Errorf("%s: %w", o.Workdir, err))
	}
	env := protocol.Strings(o.Env)
	args := protocol.Strings(o.Args)
	attr := &syscall.ProcAttr{
		Env:   env,
		Files: []uintptr{uintptr(s.stdin), uintptr(s.stdout), uintptr(s.stderr)},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: o.TTY, Ctty: 0},
	}
	for _, fd := range s.more {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	err = unix.ENOENT
	for _, file := range candidates(args[0], env) {
		var st unix.Stat_t
		if missing := unix.Stat(file, &st); isMissing(missing) {
			continue
		}
		began = time.Now()
		pid, tried := syscall.ForkExec(file, args, attr)
		if tried == nil {
			return pid, began, nil
		}
		if isMissing(tried) {
			continue
		}
		err = tried
		if !errors.Is(tried, unix.EACCES) {
			break
		}
	}
	return 0, began, execError(args[0], err)
}

// candidates returns the files that execvp would try, in its order.
func candidates(name string, env []string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	search := DefaultPath
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			search = v
			break
		}
	}
	var files []string
	for _, dir := range strings.Split(search, ":") {
		if dir == "" {
			dir = "."
		}
		files = append(files, dir+"/"+name)
	}
	return files
}

func isMissing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG)
}

// execError distinguishes a command that does not exist from one that cannot be
// executed, and from a cell that can have no more processes.
func execError(name string, err error) error {
	e := &fault.StartError{Step: "exec", Err: fmt.Errorf("%s: %w", name, err)}
	switch {
	case isMissing(err):
		e.Cause = fault.CauseNotFound
	case errors.Is(err, unix.EAGAIN):
		e.Step, e.Cause = "fork", fault.CauseProcesses
	case errors.Is(err, unix.ENOMEM):
		e.Step = "fork"
	default:
		e.Cause = fault.CauseNotExecutable
	}
	return e
}

// superCapabilities are what a command has that is the cell's root: enough for
// package managers to give files their owners.
func superCapabilities() []uintptr {
	return []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_SETUID, unix.CAP_SETGID}
}

package seccomp

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/syscalls"
)

// onThread runs f on a separate thread, with no_new_privs and without
// capabilities, and destroys the thread afterwards: what f does to it concerns
// neither other tests nor other threads, just as in a cell's first process.
func onThread(t testing.TB, f func() error) {
	t.Helper()
	if err := <-startThread(func() error { return errors.Join(giveUp(), f()) }); err != nil {
		t.Error(err)
	}
}

func startThread(f func() error) <-chan error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// The main thread would stay. It is held until another was found.
			defer runtime.UnlockOSThread()
			done <- <-startThread(f)
			return
		}
		done <- f() // never unlocked: the thread ends with the goroutine
	}()
	return done
}

func giveUp() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&hdr, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

func native(t testing.TB) syscalls.Arch {
	t.Helper()
	arch, ok := syscalls.ParseArch(runtime.GOARCH)
	if !ok {
		t.Skipf("cells do not run on %s", runtime.GOARCH)
	}
	return arch
}

// attempt makes a call by name and returns its error, 0 if it succeeded. Results
// that are descriptors are closed.
func attempt(arch syscalls.Arch, name string, args [6]uint64) unix.Errno {
	number, _ := syscalls.Number(arch, name)
	a := [6]uintptr{}
	for i := range a {
		a[i] = uintptr(args[i])
	}
	// Not a raw call: a listener of this very process must be able to run.
	result, _, no := unix.Syscall6(uintptr(number), a[0], a[1], a[2], a[3], a[4], a[5])
	if no == 0 && name == "socket" {
		_ = unix.Close(int(result))
	}
	return no
}

// tries returns arguments with which a denied call cannot do harm if it is not
// denied after all.
func tries(r syscalls.Rule) [][6]uint64 {
	switch r.Name {
	case "clone":
		// Without the memory of the parent a child would be a second test.
		return [][6]uint64{
			{unix.CLONE_NEWUSER | unix.CLONE_THREAD},
			{unix.CLONE_NEWNS | unix.CLONE_FS},
			{upperGarbage | unix.CLONE_NEWNET | unix.CLONE_THREAD},
		}
	case "unshare":
		return [][6]uint64{{unix.CLONE_NEWUSER}, {unix.CLONE_NEWTIME}, {unix.CLONE_NEWNS}, {1 << 40}}
	case "personality":
		return [][6]uint64{{8}, {0x400000}, {upperGarbage | 8}}
	case "renameat2":
		return [][6]uint64{{0, 0, 0, 0, unix.RENAME_WHITEOUT}, {0, 0, 0, 0, unix.RENAME_WHITEOUT | unix.RENAME_NOREPLACE}}
	case "ioctl":
		bad := uint64(1 << 20) // no descriptor
		return [][6]uint64{{bad, unix.TIOCSTI}, {bad, unix.TIOCLINUX}, {bad, upperGarbage | unix.TIOCSTI}, {bad, unix.TIOCSETD}}
	case "socket", "socketpair":
		return [][6]uint64{
			{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
			{unix.AF_INET6, unix.SOCK_RAW | unix.SOCK_CLOEXEC, 58},
			{unix.AF_INET, unix.SOCK_PACKET, 0},
			{unix.AF_PACKET, unix.SOCK_RAW, 0},
			{unix.AF_VSOCK, unix.SOCK_STREAM, 0},
			{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC},
			{unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
			{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP},
			{upperGarbage | unix.AF_PACKET, upperGarbage | unix.SOCK_RAW, 0},
		}
	}
	return [][6]uint64{{}}
}

// TestKernelDenies attempts every denied call.
func TestKernelDenies(t *testing.T) {
	t.Parallel()
	arch := native(t)
	f := build(t, arch, Options{})
	onThread(t, func() error {
		if fd, err := f.Install(0); err != nil || fd != -1 {
			return fmt.Errorf("install: %d, %w", fd, err)
		}
		var wrong []error
		for _, r := range syscalls.Rules() {
			if _, exists := syscalls.Number(arch, r.Name); !exists {
				continue
			}
			for _, args := range tries(r) {
				if got := attempt(arch, r.Name, args); got != errno(r.Action) {
					wrong = append(wrong, fmt.Errorf("%s(%#x): %w, want %s", r.Name, args, got, r.Action))
				}
			}
		}
		for _, number := range []uintptr{uintptr(syscalls.Last(arch) + 1), x32Bit | 39, x32Bit | 0x208, 0xffffffff} {
			if _, _, no := unix.RawSyscall(number, 0, 0, 0); no != unix.ENOSYS {
				wrong = append(wrong, fmt.Errorf("call %d: %w", number, no))
			}
		}
		return errors.Join(wrong...)
	})
	// Only that thread is under the filter.
	if err := unix.Access("/proc/self/mountinfo", unix.R_OK); err != nil {
		t.Error(err)
	}
	if got := attempt(arch, "clone3", [6]uint64{}); got == unix.ENOSYS {
		t.Error("clone3 is denied to another thread")
	}
}

// TestKernelDeniesLive attempts the calls that a cell is denied besides which
// writes to a directory of the host, and the allowed side of them.
func TestKernelDeniesLive(t *testing.T) {
	t.Parallel()
	arch := native(t)
	f := build(t, arch, Options{Live: true, Allow: []string{"renameat2"}})
	onThread(t, func() error {
		if _, err := f.Install(0); err != nil {
			return err
		}
		var wrong []error
		for _, c := range []struct {
			name string
			args [6]uint64
			want unix.Errno
		}{
			{"chmod", [6]uint64{0, 0o4755}, unix.EPERM},
			{"chmod", [6]uint64{0, 0o1755}, unix.EFAULT},
			{"creat", [6]uint64{0, 0o2644}, unix.EPERM},
			{"fchmod", [6]uint64{1 << 20, 0o6000}, unix.EPERM},
			{"fchmod", [6]uint64{1 << 20, 0o644}, unix.EBADF},
			{"fchmodat", [6]uint64{0, 0, upperGarbage | 0o4000}, unix.EPERM},
			{"fchmodat2", [6]uint64{0, 0, 0o2000}, unix.EPERM},
			{"mknod", [6]uint64{0, unix.S_IFREG | 0o4755}, unix.EPERM},
			{"mknod", [6]uint64{0, unix.S_IFCHR}, unix.EPERM},
			{"mknod", [6]uint64{0, unix.S_IFREG | 0o755}, unix.EFAULT},
			{"mknodat", [6]uint64{0, 0, unix.S_IFREG | 0o2755}, unix.EPERM},
			{"open", [6]uint64{0, unix.O_CREAT | unix.O_WRONLY, 0o4755}, unix.EPERM},
			{"open", [6]uint64{0, unix.O_RDONLY, 0o4755}, unix.EFAULT},
			{"openat", [6]uint64{0, 0, unix.O_TMPFILE | unix.O_RDWR, 0o4755}, unix.EPERM},
			{"openat", [6]uint64{0, 0, unix.O_CREAT, 0o644}, unix.EFAULT},
			{"openat", [6]uint64{0, 0, unix.O_DIRECTORY, 0o6777}, unix.EFAULT},
			{"openat2", [6]uint64{}, unix.ENOSYS},
			{"renameat2", [6]uint64{0, 0, 0, 0, unix.RENAME_WHITEOUT}, unix.EPERM},
			{"renameat2", [6]uint64{0, 0, 0, 0, unix.RENAME_EXCHANGE}, unix.EFAULT},
		} {
			if _, exists := syscalls.Number(arch, c.name); !exists {
				continue
			}
			if got := attempt(arch, c.name, c.args); got != c.want {
				wrong = append(wrong, fmt.Errorf("%s(%#x): %w, want %w", c.name, c.args, got, c.want))
			}
		}
		return errors.Join(wrong...)
	})
}

// TestKernelAllows attempts calls that tools need, and the allowed side of those
// that are denied in part.
func TestKernelAllows(t *testing.T) {
	t.Parallel()
	arch := native(t)
	f := build(t, arch, Options{})
	pid := uint64(os.Getpid())
	onThread(t, func() error {
		if _, err := f.Install(0); err != nil {
			return err
		}
		var wrong []error
		for _, c := range []struct {
			name string
			args [6]uint64
			want unix.Errno
		}{
			{"getpid", [6]uint64{}, 0},
			{"socket", [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, 0},
			{"socket", [6]uint64{unix.AF_UNIX, unix.SOCK_RAW}, 0},
			{"socket", [6]uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_NONBLOCK}, 0},
			{"socket", [6]uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, 0},
			{"socket", [6]uint64{upperGarbage | unix.AF_INET, upperGarbage | unix.SOCK_STREAM, unix.IPPROTO_TCP}, 0},
			{"socket", [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, 0},
			{"personality", [6]uint64{0xffffffff}, 0},
			{"personality", [6]uint64{0}, 0},
			{"unshare", [6]uint64{unix.CLONE_FS}, 0},
			{"unshare", [6]uint64{0}, 0},
			{"ioctl", [6]uint64{1 << 20, unix.TCGETS}, unix.EBADF},
			{"kcmp", [6]uint64{pid, pid, 1}, 0},
			{"ptrace", [6]uint64{unix.PTRACE_CONT, 1 << 30}, unix.ESRCH},
			{"process_vm_readv", [6]uint64{pid}, 0},
			{"pidfd_open", [6]uint64{1 << 30}, unix.ESRCH},
			{"landlock_create_ruleset", [6]uint64{}, unix.EFAULT},
			{"memfd_create", [6]uint64{}, unix.EFAULT},
			{"seccomp", [6]uint64{99}, unix.EINVAL},
		} {
			if got := attempt(arch, c.name, c.args); got != c.want {
				wrong = append(wrong, fmt.Errorf("%s(%#x): %w, want %w", c.name, c.args, got, c.want))
			}
		}
		return errors.Join(wrong...)
	})
}

// TestExceptionReachesTheKernel: what a policy allows is answered by the kernel.
func TestExceptionReachesTheKernel(t *testing.T) {
	t.Parallel()
	arch := native(t)
	f := build(t, arch, Options{Allow: []string{"name_to_handle_at"}})
	onThread(t, func() error {
		if _, err := f.Install(0); err != nil {
			return err
		}
		if got := attempt(arch, "name_to_handle_at", [6]uint64{}); got != unix.EFAULT {
			return fmt.Errorf("name_to_handle_at: %w", got)
		}
		if got := attempt(arch, "io_uring_setup", [6]uint64{}); got != unix.EPERM {
			return fmt.Errorf("io_uring_setup: %w", got)
		}
		return nil
	})
}

// TestNestedFilter: a program may restrict itself further, and not loosen.
func TestNestedFilter(t *testing.T) {
	t.Parallel()
	arch := native(t)
	outer := build(t, arch, Options{})
	getppid, _ := syscalls.Number(arch, "getppid")
	inner := Filter{program: load(atNumber, branch(opEqual, uint32(getppid),
		ret(unix.SECCOMP_RET_ERRNO|uint32(unix.EXDEV)), ret(unix.SECCOMP_RET_ALLOW)))}
	onThread(t, func() error {
		for _, f := range []Filter{outer, inner} {
			if _, err := f.Install(0); err != nil {
				return err
			}
		}
		if got := attempt(arch, "getppid", [6]uint64{}); got != unix.EXDEV {
			return fmt.Errorf("getppid: %w", got)
		}
		if got := attempt(arch, "io_uring_setup", [6]uint64{}); got != unix.EPERM {
			return fmt.Errorf("io_uring_setup: %w", got)
		}
		return nil
	})
}

func TestInstallNeedsNoNewPrivs(t *testing.T) {
	t.Parallel()
	f := build(t, native(t), Options{})
	err := <-startThread(func() error {
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&hdr, &none[0]); err != nil {
			return err
		}
		if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || set == 1 {
			return err // the whole test runs with it
		}
		if _, err := f.Install(0); !errors.Is(err, unix.EACCES) {
			return fmt.Errorf("without no_new_privs: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestTools runs programs that people will want on the first day.
func TestTools(t *testing.T) {
	t.Parallel()
	f := build(t, native(t), Options{})
	compile := func(flags string) string {
		return fmt.Sprintf("gcc -pthread %s -o threads threads.c && ./threads", flags)
	}
	for _, c := range []struct{ tool, script string }{
		{"sh", "echo $(echo a | cat) | grep -q a"},
		{"gcc", compile("")},
		{"gcc", compile("-fsanitize=address,undefined") + " && " + compile("-fsanitize=thread")},
		{"strace", "strace -f -o trace sh -c 'cat /dev/null & wait' && grep -q execve trace"},
		{"strace", "strace -o trace -e inject=getppid:error=EXDEV sh -c : && true"},
		{"gdb", "gdb -nx -batch -ex run -ex quit /bin/true 2>&1 | grep -q 'exited normally'"},
		{"node", "node -e 'require(\"fs\").readFile(\"/etc/passwd\", e => process.exit(e ? 1 : 0))'"},
		{"java", "java -version"},
		{"tmux", "tmux -L forkcell-$$ -f /dev/null new-session -d true"},
		{"perl", "perl -e 'exit(fork() ? (wait, $?)[1] : 0)'"},
	} {
		t.Run(c.tool, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.tool); err != nil {
				t.Skipf("not installed: %v", err)
			}
			work := t.TempDir()
			if err := os.WriteFile(filepath.Join(work, "threads.c"), []byte(threadsSource), 0o644); err != nil {
				t.Fatal(err)
			}
			onThread(t, func() error {
				if _, err := f.Install(0); err != nil {
					return err
				}
				cmd := exec.Command("/bin/sh", "-c", c.script)
				cmd.Dir = work
				cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + work, "TMPDIR=" + work, "TMUX_TMPDIR=" + work, "TERM=dumb"}
				if out, err := cmd.CombinedOutput(); err != nil {
					return fmt.Errorf("%s: %w\n%s", c.script, err, out)
				}
				return nil
			})
		})
	}
}

const threadsSource = `
#include <pthread.h>
static void *nothing(void *p) { return p; }
int main(void) {
	pthread_t t;
	if (pthread_create(&t, 0, nothing, 0)) return 1;
	return pthread_join(t, 0) != 0;
}
`

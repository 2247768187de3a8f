package drivertest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/landlock"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/seccomp"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/syscalls"
)

// allowedProbes are what programs need, close to what is denied.
func allowedProbes() []probe {
	var list []probe
	add := func(name string, do func() error) *probe {
		list = append(list, probe{name: "allowed: " + name, allowed: true, do: do})
		return &list[len(list)-1]
	}
	add("restrict itself by Landlock", restrictMore).own = true
	add("restrict itself by seccomp", filterMore)
	add("trace a child", traceChild)
	add("switch off random addresses", func() error { return call("personality", 0x0040000) }).own = true
	add("a server and a client", func() error { return talk("tcp", "127.0.0.1:0") })
	add("a server and a client by IPv6", func() error {
		if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
			return nil // this kernel has none
		}
		return talk("tcp", "[::1]:0")
	})
	add("unix sockets", func() error { return talk("unix", "/tmp/allowed.sock") })
	add("abstract unix sockets", func() error { return talk("unix", "@allowed") })
	add("signal its own processes", func() error { return shell("sleep 100 & kill $!; wait $!; test $? = 143") })
	add("fifos and links in the workspace", func() error {
		return shell("cd /src/project && mkfifo f && ln -s f l && echo x > a && ln a b && mkdir d && mv a d/a && rm -r d b l f")
	})
	add("its own name and oom score", func() error {
		return errors.Join(os.WriteFile("/proc/self/comm", []byte("renamed"), 0), os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0))
	})
	add("shared memory and semaphores", func() error {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
		if err == nil {
			_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
		return errors.Join(err, os.WriteFile("/dev/shm/allowed", []byte("x"), 0o600))
	})
	add("list interfaces", func() error {
		_, err := net.Interfaces()
		return err
	})
	add("programs in /tmp, the home and memory", func() error {
		return shell("cp /bin/true /tmp/t && /tmp/t && cp /bin/true /home/sandbox/t && /home/sandbox/t")
	})
	return list
}

func restrictMore() error {
	runtime.LockOSThread()
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if _, err := landlock.Restrict(landlock.Ruleset{ReadOnly: []int{root}, Scope: true}); err != nil {
		return err
	}
	fd, err := unix.Open("/tmp/more", unix.O_CREAT|unix.O_WRONLY, 0o600)
	if err == nil {
		_ = unix.Close(fd)
		return errors.New("its own restriction does nothing")
	}
	return nil
}

func filterMore() error {
	runtime.LockOSThread()
	arch, _ := syscalls.ParseArch(runtime.GOARCH)
	f, err := seccomp.Build(arch, seccomp.Options{})
	if err != nil {
		return err
	}
	_, err = f.Install(0)
	return err
}

func traceChild() error {
	runtime.LockOSThread()
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(cmd.Process.Pid, &status, 0, nil); err != nil || !status.Stopped() {
		return fmt.Errorf("not stopped: %v, %w", status, err)
	}
	if err := unix.PtraceDetach(cmd.Process.Pid); err != nil {
		return err
	}
	return cmd.Wait()
}

func talk(network, addr string) error {
	l, err := net.Listen(network, addr)
	if err != nil {
		return err
	}
	return errors.Join(dial(network, l.Addr().String()), l.Close())
}

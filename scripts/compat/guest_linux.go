package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// workerArg starts the second process of the machine.
const workerArg = "worker"

// whoVariable says whose jobs this machine runs. The kernel gives what it does
// not know of its command line to the first process, as environment.
const whoVariable = "forkcell_jobs_of"

// guest is the machine's side. The first process sets the machine up, starts a
// second one that runs the jobs, and from then on only buries orphans, as any
// first process must: tests look for processes that are gone.
func guest() {
	if os.Getpid() != 1 {
		if err := work(); err != nil {
			fmt.Fprintln(os.Stderr, "compat worker:", err)
			os.Exit(1)
		}
		return
	}
	if err := errors.Join(setUp(), superviseWorker()); err != nil {
		fmt.Fprintln(os.Stderr, "compat guest:", err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// mounting is one mount of a running Debian.
type mounting struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

func setUp() error {
	if err := mountAll(mounting{"dev", "/dev", "devtmpfs", 0, ""}); err != nil {
		return err
	}
	if err := loadModules(); err != nil {
		return err
	}
	// What a module finds appears a little later.
	for range 200 {
		if _, err := os.Stat("/dev/vdb"); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := mountAll(mounting{"/dev/vda", "/new", "ext4", 0, ""}); err != nil {
		return err
	}
	// As switch_root does: the first file system cannot be left, only covered.
	err := errors.Join(unix.Chdir("/new"), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), unix.Chdir("/"))
	if err != nil {
		return fmt.Errorf("switch root: %w", err)
	}
	const plain = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	err = mountAll(
		mounting{"dev", "/dev", "devtmpfs", unix.MS_NOSUID, "mode=0755"},
		mounting{"proc", "/proc", "proc", plain, ""},
		mounting{"sysfs", "/sys", "sysfs", plain, ""},
		mounting{"cgroup2", "/sys/fs/cgroup", "cgroup2", plain, "nsdelegate"},
		mounting{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=0620,gid=5,ptmxmode=000"},
		mounting{"tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
		mounting{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
		mounting{"/dev/vdb", workPath, "ext4", 0, ""},
	)
	if err != nil {
		return err
	}
	return errors.Join(settings(), loopback(), unix.Sethostname([]byte("compat")),
		os.Chown(userHome, accountID, accountID), os.Chmod(userHome, 0o700))
}

func mountAll(list ...mounting) error {
	for _, m := range list {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	return nil
}

func loadModules() error {
	files, err := filepath.Glob("/modules/*")
	if err != nil {
		return err
	}
	slices.Sort(files)
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return nil
}

// settings makes the settings that Debian's own start makes, where a test could notice.
func settings() error {
	var errs []error
	for name, value := range map[string]string{
		"fs/protected_symlinks": "1", "fs/protected_hardlinks": "1", "fs/protected_fifos": "1", "fs/protected_regular": "2",
	} {
		errs = append(errs, os.WriteFile("/proc/sys/"+name, []byte(value), 0o644))
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		errs = append(errs, os.Symlink(target, "/dev/"+name))
	}
	return errors.Join(errs...)
}

// loopback brings the one network interface up.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// superviseWorker starts the worker and reaps until it has ended.
func superviseWorker() error {
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"compat", workerArg}, &syscall.ProcAttr{
		Dir: "/", Env: append(environment(false), whoVariable+"="+os.Getenv(whoVariable)), Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		gone, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case gone == pid && status.ExitStatus() != 0:
			return fmt.Errorf("the worker ended with %#x", int(status))
		case gone == pid:
			return nil
		}
	}
}

// environment returns that of a person at the machine.
func environment(user bool) []string {
	home, name := "/root", "root"
	if user {
		home, name = userHome, account
	}
	return []string{
		"HOME=" + home, "USER=" + name, "LOGNAME=" + name, "SHELL=/bin/bash", "LANG=C.UTF-8",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		// A run takes long in an emulator.
		"FORKCELL_TEST_RUNS=20",
	}
}

// command is a job as a process.
func (j job) command() *exec.Cmd {
	cmd := exec.Command(j.Args[0], j.Args[1:]...)
	cmd.Env = environment(j.User)
	cmd.Dir = "/"
	if j.Pkg != "" {
		cmd.Dir = filepath.Join(repoPath, j.Pkg)
	}
	if j.User {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: accountID, Gid: accountID}}
	}
	// A process that a test left behind may not hold the pipe for ever.
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

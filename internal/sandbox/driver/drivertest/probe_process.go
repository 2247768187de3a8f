package drivertest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
)

// procProbes are about what the kernel tells, and lets be set, in /proc.
func procProbes() []probe {
	var list []probe
	for _, name := range []string{"interrupts", "kallsyms", "key-users", "keys", "zoneinfo"} {
		list = append(list, probe{
			name: "/proc/" + name, without: []control.Name{control.ProcMasks}, says: "permission denied", optional: true,
			do: func() error { return readable("/proc/" + name) },
		})
	}
	for _, name := range []string{
		"net/ipv4/ip_forward", "net/core/somaxconn", "user/max_user_namespaces", "user/max_mnt_namespaces",
	} {
		list = append(list, probe{
			name: "set " + name, without: []control.Name{control.ReadOnlyProc, control.Capabilities}, says: "permission denied",
			optional: name == "net/core/somaxconn", // older kernels show it to their own root alone
			do:       func() error { return setAgain("/proc/sys/" + name) },
		})
	}
	return list
}

// setAgain writes a setting's own value.
func setAgain(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// initProbes look into the cell's first process, which has the same user.
func initProbes() []probe {
	var list []probe
	add := func(name string, do func() error, more ...control.Name) *probe {
		list = append(list, probe{name: "init: " + name, without: append([]control.Name{control.HiddenInit}, more...), do: do})
		return &list[len(list)-1]
	}
	opened := func(path string, flags int) func() error {
		return func() error {
			f, err := os.OpenFile(path, flags, 0)
			if err != nil {
				return err
			}
			return f.Close()
		}
	}
	for _, name := range []string{"environ", "maps", "mem", "auxv", "pagemap"} {
		add(name, opened("/proc/1/"+name, os.O_RDONLY)).says = "permission denied"
	}
	for _, name := range []string{"cwd", "root", "exe"} {
		add(name, func() error {
			_, err := os.Readlink("/proc/1/" + name)
			return err
		}).says = "permission denied"
	}
	for _, name := range []string{"mem", "oom_score_adj", "coredump_filter", "comm"} {
		p := add("write "+name, opened("/proc/1/"+name, os.O_WRONLY))
		// The kernel gives them to the cell's root, and they can do no more than
		// shorten the cell's own life.
		p.says, p.super = "permission denied", name != "mem"
		p.own = name == "comm" // gVisor lets the cell's user give it another name
	}
	usage := add("io", func() error { return readable("/proc/1/io") })
	usage.says, usage.ownSuper = "permission denied", true
	add("its descriptors", func() error {
		_, err := os.Readlink("/proc/1/fd/0")
		return err
	}).says = "permission denied"
	add("the program itself", opened("/proc/1/exe", os.O_RDONLY), control.Landlock).says = "permission denied"
	for _, name := range []string{"self", "script"} {
		p := add("run its program by a "+name, func() error { return nil })
		p.without, p.says, p.program = []control.Name{control.Landlock}, "permission denied", "/src/project/"+name
	}
	add("take a descriptor", takeDescriptor).says = denied
	add("read its memory", func() error {
		vec := [2]uint64{0x10000, 1}
		return reached(call("process_vm_readv", 1, &vec, 1, &vec, 1, 0))
	}).says = denied
	add("trace it", func() error {
		runtime.LockOSThread()
		return call("ptrace", unix.PTRACE_SEIZE, 1, 0, 0)
	}).says = denied
	list[len(list)-1].optional = true // hosts can keep tracing to children
	add("the caller's environment", func() error { return holds("/proc/1/environ") }, control.Environment).says = "permission denied"
	return append(list, probe{
		name: "init: end it by a signal", without: []control.Name{control.Signals}, alone: true, ends: true, says: "alive", do: signalInit,
	})
}

// signalInit sends every signal that there is.
func signalInit() error {
	for range 20 {
		for sig := unix.Signal(1); sig <= 64; sig++ {
			_ = unix.Kill(1, sig)
		}
	}
	return nil
}

func takeDescriptor() error {
	pidfd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(pidfd, 0, 0)
	return err
}

// inheritedProbes look for what the caller had.
func inheritedProbes() []probe {
	var list []probe
	add := func(name, says, caller string, off []control.Name, do func() error) *probe {
		// Others in the same process would have opened the same numbers.
		list = append(list, probe{name: "inherited: " + name, says: says, caller: caller, without: off, apart: slices.Contains(off, control.Descriptors), do: do})
		return &list[len(list)-1]
	}
	const bad = "bad file descriptor"
	fds := []control.Name{control.Descriptors}
	add("a file", bad, "", fds, func() error {
		_, err := unix.Pread(thing("FILE_FD"), make([]byte, 1), 0)
		return err
	})
	add("a socket", bad, "", fds, func() error { return unix.Send(thing("SOCKET_FD"), []byte("x"), unix.MSG_NOSIGNAL) })
	add("the init's own socket", bad, "", fds, func() error {
		_, err := unix.GetsockoptInt(thing("CONTROL"), unix.SOL_SOCKET, unix.SO_DOMAIN)
		return err
	})
	add("a directory", bad, "", fds, func() error { return unix.Fchdir(thing("DIR_FD")) })
	add("a file beside an open directory", bad, "", []control.Name{control.Descriptors, control.Landlock}, func() error {
		fd, err := unix.Openat(thing("DIR_FD"), "witness", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	})
	for _, live := range []bool{false, true} {
		p := add(fmt.Sprintf("start in an open directory, live %t", live), "workdir", "", []control.Name{control.Descriptors, control.Workdir}, func() error {
			return dial("unix", filepath.Base(here("DAEMON")))
		})
		p.workdir, p.live = "/src/project/descriptor", live
	}
	add("a key", denied, "", []control.Name{control.Keyring, control.Seccomp}, readKey).optional = true
	add("core dumps", "off", "", []control.Name{control.Plain}, coreDumps).optional = true
	add("a better priority", "held", "root", []control.Name{control.Plain}, func() error {
		nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err != nil || nice <= 20 {
			return fmt.Errorf("held: %d, %w", 20-nice, err)
		}
		return nil
	})
	add("protection from the killer", "held", "root", []control.Name{control.Plain}, func() error {
		text, err := os.ReadFile("/proc/self/oom_score_adj")
		if err == nil && !strings.HasPrefix(string(text), "-") {
			err = fmt.Errorf("held: its score is %s%s", bytes.TrimSpace(text), here("UNPROTECTED"))
		}
		return err
	}).optional = true // a root without CAP_SYS_RESOURCE cannot have it itself
	add("a terminal", "no terminal", "", []control.Name{control.Descriptors, control.Seccomp}, typeIntoTerminal).optional = true // hosts can switch it off
	add("ignored signals", "none", "", []control.Name{control.Signals}, func() error { return signalSet("SigIgn:", unix.SIGHUP) })
	add("blocked signals", "none", "", []control.Name{control.Signals}, func() error { return signalSet("SigBlk:", unix.SIGUSR2) })
	return list
}

// typeIntoTerminal takes a terminal that the caller has left open, and types into
// it what a reader would take for a person's input. The session that had one
// leaves it unusable, so that there are several.
func typeIntoTerminal() error {
	err := errors.New("no terminal")
	for fd := thing("TTY_FD"); fd < thing("TTY_FD")+terminals; fd++ {
		if taken := unix.IoctlSetInt(fd, unix.TIOCSCTTY, 0); taken != nil {
			continue
		}
		letter := byte('x')
		err = call("ioctl", fd, unix.TIOCSTI, &letter)
		if err == nil {
			return nil
		}
	}
	return err
}

func readKey() error {
	id := thing("KEY")
	if id <= 0 {
		return errors.New("the caller has no keyring")
	}
	buf := make([]byte, 64)
	n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, buf, 0)
	if err == nil && !bytes.Equal(buf[:n], []byte(secret)) {
		err = errors.New("held: another key")
	}
	return err
}

func coreDumps() error {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_CORE, &lim); err != nil {
		return err
	}
	if lim.Max == 0 {
		return errors.New("they are off")
	}
	return nil
}

// signalSet looks at a program that changes nothing about signals.
func signalSet(line string, sig unix.Signal) error {
	out, err := exec.Command("cat", "/proc/self/status").Output()
	if err != nil {
		return err
	}
	_, rest, shown := strings.Cut(string(out), line)
	if !shown {
		return toldSignal(sig)
	}
	field, _, _ := strings.Cut(rest, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(field), 16, 64)
	if err != nil {
		return err
	}
	if set&(1<<(sig-1)) == 0 {
		return errors.New("none")
	}
	return nil
}

// toldSignal asks a program what it has inherited, where the kernel does not show it.
func toldSignal(sig unix.Signal) error {
	out, err := exec.Command("env", "--list-signal-handling", "true").CombinedOutput()
	if err != nil {
		return err
	}
	if !strings.Contains(string(out), fmt.Sprintf("(%2d)", int(sig))) {
		return errors.New("none")
	}
	return nil
}

// namespaceProbes look for what other namespaces hold.
func namespaceProbes() []probe {
	return []probe{
		{name: "a service of the host", without: []control.Name{control.NetNS}, says: "refused", do: func() error { return dial("tcp", here("TCP")) }},
		{name: "an abstract socket of the host", abi: 6, without: []control.Name{control.NetNS, control.Landlock}, do: func() error { return dial("unix", here("ABSTRACT")) }},
		{name: "the host's interfaces", without: []control.Name{control.NetNS}, says: "held", optional: true, do: interfaces},
		{name: "the host's connections", without: []control.Name{control.NetNS}, says: "held", do: connections},
		{name: "the host's shared memory", without: []control.Name{control.IPCNS}, says: "no such file", do: func() error {
			_, err := unix.SysvShmGet(thing("SHM"), 0, 0)
			return err
		}},
		{name: "the host's name", without: []control.Name{control.UTSNS}, says: "held", do: func() error {
			name, err := os.Hostname()
			if err != nil || name != here("NODE") {
				return fmt.Errorf("held: %q, %w", name, err)
			}
			return nil
		}},
		{name: "a process of the host", without: []control.Name{control.PIDNS}, says: "no such file", do: func() error {
			return readable("/proc/" + here("VICTIM") + "/cmdline")
		}},
		{name: "signal a process of the host", abi: 6, without: []control.Name{control.PIDNS, control.Landlock}, says: "no such process", do: func() error {
			return unix.Kill(thing("VICTIM"), 0)
		}},
		{name: "its control group's place", caller: "root", without: []control.Name{control.CgroupNS}, says: "held", optional: true, do: func() error {
			text, err := os.ReadFile("/proc/self/cgroup")
			if err != nil || !bytes.Contains(text, []byte("forkcell-")) {
				return fmt.Errorf("held: %q, %w", text, err)
			}
			return nil
		}},
	}
}

func interfaces() error {
	list, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback == 0 {
			return nil
		}
	}
	return errors.New("held: loopback only")
}

// connections looks for the host's listener in the kernel's table.
func connections() error {
	_, port, err := net.SplitHostPort(here("TCP"))
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return err
	}
	text, err := os.ReadFile("/proc/net/tcp")
	if err == nil && !bytes.Contains(text, []byte(fmt.Sprintf(":%04X ", binary.BigEndian.Uint16(binary.BigEndian.AppendUint16(nil, uint16(n)))))) {
		err = errors.New("held: not there")
	}
	return err
}

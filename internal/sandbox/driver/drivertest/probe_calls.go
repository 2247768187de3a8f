package drivertest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/syscalls"
)

func sysNumber(name string) int {
	arch, ok := syscalls.ParseArch(runtime.GOARCH)
	if !ok {
		return -1
	}
	n, ok := syscalls.Number(arch, name)
	if !ok {
		return -1
	}
	return n
}

const denied = "operation not permitted"

// callProbes are calls that an unprivileged process could make: the filter alone
// stops them.
func callProbes() []probe {
	var list []probe
	add := func(name string, do func() error) *probe {
		list = append(list, probe{name: name, without: []control.Name{control.Seccomp}, says: denied, do: do})
		return &list[len(list)-1]
	}
	plain := func(name string, args ...any) func() error {
		return func() error { return reached(call(name, args...)) }
	}
	here := unix.AT_FDCWD
	buffer := make([]byte, 4096)
	add("open_tree", func() error { return call("open_tree", here, "/", 0) })
	add("statmount", plain("statmount", 0, 0, 0, 0)).optional = true
	add("listmount", plain("listmount", 0, 0, 0, 0)).optional = true
	add("add_key", func() error {
		_, err := unix.AddKey("user", "probe", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	})
	add("request_key", func() error {
		_, err := unix.RequestKey("user", "probe", "", 0)
		return reached(err)
	})
	add("keyctl", func() error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
		return reached(err)
	})
	add("bpf", func() error {
		path := append([]byte("/nothing"), 0)
		attr := [16]uintptr{reflect.ValueOf(path).Pointer()}
		err := reached(call("bpf", unix.BPF_OBJ_GET, &attr, 128))
		runtime.KeepAlive(path)
		return err
	})
	add("perf_event_open", func() error {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
		attr.Size = unix.PERF_ATTR_SIZE_VER0
		_, err := unix.PerfEventOpen(&attr, 0, -1, -1, 0)
		return err
	}).optional = true
	add("io_uring_setup", func() error { return call("io_uring_setup", 1, &[16]uint64{}) }).optional = true
	none := -1
	add("io_uring_enter", plain("io_uring_enter", none, 0, 0, 0, 0, 0))
	add("io_uring_register", plain("io_uring_register", none, 0, 0, 0))
	add("userfaultfd", func() error { return call("userfaultfd", unix.O_CLOEXEC|1) }).optional = true
	add("personality: readable memory is executable", func() error { return call("personality", 0x0400000) })
	add("personality: addresses of an old layout", func() error { return call("personality", 0x0200000) })
	add("modify_ldt", func() error { return call("modify_ldt", 0, &buffer[0], 64) }).optional = true
	add("adjtimex", func() error { return call("adjtimex", &unix.Timex{}) })
	add("clock_adjtime", func() error { return call("clock_adjtime", unix.CLOCK_REALTIME, &unix.Timex{}) })
	add("clock_settime", plain("clock_settime", 999, &buffer[0]))
	add("settimeofday", plain("settimeofday", 1, 0))
	add("quotactl", plain("quotactl", 0xffff, 0, 0, 0))
	add("name_to_handle_at", plain("name_to_handle_at", here, "/", &buffer[0], &buffer[1024], 0))
	add("clone3", plain("clone3", 0, 0)).says = "not implemented"
	foreign := add("32-bit calls", foreignABI)
	foreign.says, foreign.optional = "not implemented", true
	return append(append(list, socketProbes()...), terminalProbes()...)
}

func socketProbes() []probe {
	var list []probe
	for _, s := range []struct {
		name                   string
		family, kind, protocol int
		optional               bool
	}{
		{"device events", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT, false},
		{"the packet filter", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER, true},
		{"socket diagnostics", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG, true},
		{"generic netlink", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC, false},
		{"the hypervisor", unix.AF_VSOCK, unix.SOCK_STREAM, 0, true},
		{"UDP-Lite", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE, true},
	} {
		list = append(list, probe{
			name: "socket: " + s.name, without: []control.Name{control.Seccomp}, says: denied, optional: s.optional,
			do: func() error { return openSocket(s.family, s.kind, s.protocol) },
		})
	}
	return list
}

func openSocket(family, kind, protocol int) error {
	fd, err := unix.Socket(family, kind, protocol)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func terminalProbes() []probe {
	ioctl := func(name string, request int, arg *byte) probe {
		return probe{
			name: "terminal: " + name, without: []control.Name{control.Seccomp}, says: denied, tty: true,
			do: func() error { return reached(call("ioctl", 0, request, arg)) },
		}
	}
	key, discipline, console := byte('x'), [4]byte{}, [4]byte{6}
	typing := ioctl("type into it", unix.TIOCSTI, &key)
	typing.optional = true // hosts can switch it off
	return []probe{typing, ioctl("line discipline", unix.TIOCSETD, &discipline[0]), ioctl("console", unix.TIOCLINUX, &console[0])}
}

// toldProbes are calls that the kernel keeps for those with capabilities over
// the whole host, which no cell can have, or that this kernel may lack: that the
// filter refuses them first is seen by its report.
func toldProbes() []probe {
	var list []probe
	none := -1
	for name, args := range map[string][]any{
		"socket AF_ALG":     {unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
		"socket AF_TIPC":    {unix.AF_TIPC, unix.SOCK_STREAM, 0},
		"socket SCTP":       {unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP},
		"socketpair AF_RDS": {unix.AF_RDS, unix.SOCK_SEQPACKET, 0, &[2]int32{}},
		"iopl":              {0},
		"ioperm":            {0x80, 1, 0},
		"lookup_dcookie":    {0, 0, 0},
		"nfsservctl":        {0, 0, 0},
		"acct":              {1},
		"delete_module":     {1},
		"finit_module":      {none, 0, 0},
		"init_module":       {0, 0, 0},
		"kexec_file_load":   {none, none, 0, 0, 0},
		"kexec_load":        {0, 0, 0, 0},
		"open_by_handle_at": {none, 0, 0},
		"quotactl_fd":       {none, 0, 0, 0},
		"reboot":            {0, 0, 0, 0},
		"swapoff":           {1},
		"swapon":            {1, 0},
		"syslog":            {99, 0, 0},
		"vhangup":           {},
	} {
		name, variant, _ := strings.Cut(name, " ")
		if sysNumber(name) < 0 {
			continue // another architecture's
		}
		list = append(list, probe{
			name: strings.TrimSpace("reported: " + name + " " + variant), without: []control.Name{control.Seccomp}, reported: name, says: "reported",
			do: func() error { return call(name, args...) },
		})
	}
	return list
}

// foreignABI makes one call by the 32-bit entry of the kernel.
func foreignABI() error {
	if runtime.GOARCH != "amd64" {
		return unix.ENOSYS
	}
	if err := os.WriteFile("/tmp/int80", int80(), 0o755); err != nil {
		return err
	}
	err := exec.Command("/tmp/int80").Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == int(unix.ENOSYS) {
		return unix.ENOSYS
	}
	return err
}

// int80 is a program that asks for its terminal's foreground, in vain, by the
// 32-bit entry: getpgrp, which always works. It exits with 0, or with the error.
func int80() []byte {
	code := []byte{
		0xb8, 65, 0, 0, 0, // mov eax, getpgrp
		0xcd, 0x80, // int 0x80
		0x31, 0xff, // xor edi, edi
		0x85, 0xc0, // test eax, eax
		0x79, 0x04, // jns over the next two
		0xf7, 0xd8, // neg eax
		0x89, 0xc7, // mov edi, eax
		0xb8, 231, 0, 0, 0, // mov eax, exit_group
		0x0f, 0x05, // syscall
	}
	const base, head = 0x400000, 64 + 56
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	b.WriteString("\x7fELF\x02\x01\x01")
	b.Write(make([]byte, 9))
	put([]uint16{2, 62}) // executable, x86-64
	put(uint32(1))
	put([]uint64{base + head, 64, 0})
	put(uint32(0))
	put([]uint16{64, 56, 1, 0, 0, 0})
	put([]uint32{1, 5}) // load, readable and executable
	length := uint64(head + len(code))
	put([]uint64{0, base, base, length, length, 0x1000})
	b.Write(code)
	return b.Bytes()
}

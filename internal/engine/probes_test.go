package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// probe is one attempt to leave a cell or to gain rights in it. try returns
// what stopped it; nil means that nothing did.
type probe struct {
	name    string
	control string // what has to stop it
	try     func() error
}

// The controls.
const (
	absence  = "mount namespace: it does not exist in the cell"
	readOnly = "read-only mounts of the host's directories"
	pids     = "pid namespace"
	network  = "network namespace: loopback of its own only"
	ipc      = "ipc namespace"
	nocaps   = "no capabilities"
	noGain   = "no_new_privs and nosuid mounts"
	locked   = "mounts that came from another user namespace are locked"
	dumpable = "the first process cannot be inspected"
	ownDev   = "a /dev of its own"
	streams  = "streams are pipes or a terminal of the cell's own"
	builtEnv = "the environment is built, not inherited"
	noUserNS = "no user namespaces in a cell"
)

func readable(path string) func() error {
	return func() error {
		if _, err := os.ReadDir(path); err == nil {
			return nil
		}
		_, err := os.ReadFile(path)
		return err
	}
}

// writable opens for writing and writes nothing.
func writable(path string) func() error {
	return func() error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return f.Close()
	}
}

func creatable(path string) func() error {
	return func() error { return os.WriteFile(path, nil, 0o600) }
}

func here(name string) string { return os.Getenv("PROBE_" + name) }

func probes() []probe {
	return slices.Concat(fileProbes(), processProbes(), privilegeProbes(), networkProbes(), nestedProbes())
}

func fileProbes() []probe {
	list := []probe{
		{"read /root", absence, readable("/root")},
		{"other homes", absence, func() error { return onlyHolds("/home", "sandbox") }},
		{"forkcell's own home", absence, readable(here("HOME"))},
		{"the host's temporary files", absence, readable(here("WITNESS"))},
		{"beside the workspace", absence, func() error { return onlyHolds(filepath.Dir(here("SOURCE")), filepath.Base(here("SOURCE"))) }},
		{"/run", absence, readable("/run")},
		{"container socket", absence, readable("/run/docker.sock")},
		{"container socket, other name", absence, readable("/var/run/docker.sock")},
		{"/sys", absence, readable("/sys")},
		{"/boot", absence, readable("/boot")},
		{"/var", absence, readable("/var")},
		{"above the root", absence, func() error { return sameNames("/", "/..") }},
		{"unix socket by path", absence, func() error { return dial("unix", here("SOCKET")) }},
		{"/dev/kmsg", ownDev, readable("/dev/kmsg")},
		{"/dev/mem", ownDev, readable("/dev/mem")},
		{"disks", ownDev, func() error { return noDisks() }},
	}
	for _, p := range []string{"/x", "/usr/x", "/etc/x", "/opt/x", "/bin/x", "/dev/x", "/home/x", "/proc/x"} {
		list = append(list, probe{"create " + p, readOnly, creatable(p)})
	}
	for _, p := range []string{"/etc/passwd", "/etc/ld.so.cache", "/bin/sh", "/usr/bin/env"} {
		list = append(list, probe{"change " + p, readOnly, writable(p)})
	}
	for _, p := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sys/net/ipv4/ip_forward",
		"/proc/sysrq-trigger", "/proc/1/oom_score_adj", "/proc/1/mem",
	} {
		list = append(list, probe{"change " + p, nocaps, writable(p)})
	}
	return list
}

func processProbes() []probe {
	list := []probe{
		{"see the host's processes", pids, func() error { return onlyOwnProcesses() }},
		{"look at a host process", pids, readable("/proc/" + here("PID"))},
		{"signal a host process", pids, func() error { return unix.Kill(number(here("PID")), 0) }},
		{"trace pid 1", dumpable, func() error { return unix.PtraceAttach(1) }},
		{"pidfd of pid 1's descriptors", dumpable, func() error { return stealDescriptor() }},
		{"shared memory of the host", ipc, func() error {
			_, err := unix.SysvShmGet(number(here("SHM")), 0, 0)
			return err
		}},
		{"descriptors of the caller", streams, func() error { return noDescriptors() }},
		{"the caller's terminal", streams, func() error { return noTerminal() }},
		{"the caller's environment", builtEnv, func() error { return noEnvironment() }},
	}
	for _, name := range []string{"root/", "environ", "fd/", "maps", "mem", "cwd/"} {
		list = append(list, probe{"/proc/1/" + name, dumpable, readable("/proc/1/" + name)})
	}
	return list
}

func privilegeProbes() []probe {
	tmp := "/tmp/probe"
	return []probe{
		{"mount", nocaps, func() error { return unix.Mount("x", "/tmp", "tmpfs", 0, "") }},
		{"remount /usr writable", nocaps, func() error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		{"unmount", nocaps, func() error { return unix.Unmount("/proc", unix.MNT_DETACH) }},
		{"new mount API", nocaps, func() error {
			_, err := unix.Fsopen("tmpfs", 0)
			return err
		}},
		{"mknod", nocaps, func() error { return unix.Mknod(tmp+"-null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) }},
		{"mknod in the workspace", nocaps, func() error { return unix.Mknod("null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) }},
		{"chroot", nocaps, func() error { return unix.Chroot("/tmp") }},
		{"pivot_root", nocaps, func() error { return unix.PivotRoot("/tmp", "/tmp") }},
		{"become root", nocaps, func() error { return syscall.Setuid(0) }},
		{"become another group", nocaps, func() error { return syscall.Setgroups([]int{0}) }},
		{"give a file away", nocaps, func() error {
			return errors.Join(os.WriteFile(tmp+"-own", nil, 0o600), unix.Chown(tmp+"-own", 0, 0))
		}},
		{"raise capabilities", nocaps, func() error { return raiseCapabilities() }},
		{"open by handle", nocaps, func() error { return openByHandle() }},
		{"set the clock", nocaps, func() error { return unix.ClockSettime(unix.CLOCK_REALTIME, &unix.Timespec{Sec: 1}) }},
		{"set the host name", nocaps, func() error { return unix.Sethostname([]byte("probe")) }},
		{"reboot", nocaps, func() error { return unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF) }},
		{"load a module", nocaps, func() error { return unix.InitModule([]byte("x"), "") }},
		{"su", noGain, func() error { return gains("su", "-c", "id -u") }},
		{"sudo", noGain, func() error { return gains("sudo", "-n", "id", "-u") }},
		{"a setuid program of its own", noGain, func() error { return setuidCopy() }},
		{"no_new_privs", noGain, func() error { return statusLine("NoNewPrivs:\t1") }},
	}
}

func networkProbes() []probe {
	list := []probe{
		{"raw socket", nocaps, func() error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }},
		{"packet socket", nocaps, func() error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) }},
		{"abstract unix socket", network, func() error { return dial("unix", here("ABSTRACT")) }},
		{"interfaces", network, func() error { return onlyLoopback() }},
		{"names", network, func() error {
			_, err := net.LookupHost("example.com")
			return err
		}},
	}
	for _, addr := range strings.Split(here("LISTENERS"), ",") {
		list = append(list, probe{"the host's listener at " + addr, network, func() error { return dial("tcp", addr) }})
	}
	return list
}

// nestedProbes try what a new namespace would allow.
func nestedProbes() []probe {
	nested := func(script string) func() error {
		return func() error {
			cmd := exec.Command("/bin/sh", "-c", script)
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
				UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
			}
			return err
		}
	}
	return []probe{
		{"user namespace", noUserNS, nested("true")},
		{"nested: remount /usr writable", locked, nested("mount -o remount,rw,bind /usr && touch /usr/x")},
		{"nested: uncover what is below /proc", locked, nested("umount -l /proc")},
		{"nested: mount proc of the host", locked, nested("mount -t proc proc /tmp && test -e /tmp/" + here("PID"))},
		{"nested: sysfs", locked, nested("mount -t sysfs sysfs /tmp && ls /tmp/kernel")},
		{"nested: device", nocaps, nested("mknod /tmp/nested c 1 3 && echo x > /tmp/nested")},
	}
}

// probeAll runs in the cell and prints for each probe whether it succeeded.
func probeAll() (string, error) {
	var b strings.Builder
	for _, p := range probes() {
		if err := p.try(); err != nil {
			fmt.Fprintf(&b, "%s\tstopped\t%s\n", p.name, strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Fprintf(&b, "%s\tout\t\n", p.name)
		}
	}
	return b.String(), nil
}

// TestProbes tries to leave a cell.
func TestProbes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	_, out := w.inside("demo", "probe", hostThings(t, w)...)
	results := map[string][]string{}
	for line := range strings.Lines(out) {
		if part := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3); len(part) == 3 {
			results[part[0]] = part[1:]
		}
	}
	for _, p := range probes() {
		// The names that hold addresses are known in the cell only.
		if strings.HasPrefix(p.name, "the host's listener") {
			continue
		}
		if _, tried := results[p.name]; !tried {
			t.Errorf("%s was not tried", p.name)
		}
	}
	listeners := 0
	for name, result := range results {
		if strings.HasPrefix(name, "the host's listener") {
			listeners++
		}
		if result[0] != "stopped" {
			t.Errorf("%s: nothing stopped it; it should have been: %s", name, controlOf(name))
		}
	}
	if listeners < 2 {
		t.Errorf("%d listeners were tried", listeners)
	}
	if t.Failed() {
		t.Log(out)
	}
}

func controlOf(name string) string {
	for _, p := range probes() {
		if p.name == name {
			return p.control
		}
	}
	return network
}

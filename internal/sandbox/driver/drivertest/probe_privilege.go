package drivertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
)

// privilegeProbes try what capabilities would allow, or would give.
func privilegeProbes() []probe {
	list := []probe{
		{name: "set the host name", without: []control.Name{control.Capabilities}, says: denied, do: func() error { return unix.Sethostname([]byte("probe")) }},
		{name: "take the network down", without: []control.Name{control.Capabilities}, says: denied, do: loopbackDown},
		{name: "the bounding set", without: []control.Name{control.Capabilities}, says: "empty", super: true, do: bounding},
		{name: "become root", without: []control.Name{control.Capabilities}, says: denied, caller: "root", super: true, apart: true, do: func() error { return syscall.Setresuid(0, 0, 0) }},
		{name: "join a group", without: []control.Name{control.Capabilities}, says: denied, caller: "root", super: true, apart: true, do: func() error { return syscall.Setgroups([]int{0}) }},
		{name: "give a file away", without: []control.Name{control.Capabilities}, says: denied, caller: "root", super: true, do: func() error {
			return errors.Join(os.WriteFile("/tmp/own", nil, 0o600), os.Chown("/tmp/own", 0, 0))
		}},
		{name: "read another's file", without: []control.Name{control.Capabilities}, says: "permission denied", caller: "root", super: true, do: func() error { return holds("foreign") }},
		{
			name: "a setuid program", without: []control.Name{control.NoNewPrivs, control.NoSUID}, rest: []control.Name{control.Landlock, control.Seccomp}, caller: "root",
			says: "held", super: true, do: setuid,
		},
		{
			name: "user namespace", without: []control.Name{control.Seccomp, control.UserNSLimit}, says: denied,
			do: func() error { return nested(unix.CLONE_NEWUSER, "true") },
		},
		{
			name: "user namespace by unshare", without: []control.Name{control.Seccomp, control.UserNSLimit}, says: denied,
			do: func() error { return shell("unshare --user true") },
		},
		{
			name: "mounts in a user namespace", without: []control.Name{control.Seccomp, control.UserNSLimit, control.Landlock}, says: denied,
			do: mountNested,
		},
		{
			name: "raw sockets in a user namespace", without: []control.Name{control.Seccomp, control.UserNSLimit}, says: denied,
			do: func() error {
				return nested(unix.CLONE_NEWUSER|unix.CLONE_NEWNET, "ip link set lo down || busybox ip link set lo down || grep -q 'CapEff:.*[1-9a-f]' /proc/self/status")
			},
		},
	}
	both := []control.Name{control.Seccomp, control.Capabilities}
	for name, flag := range map[string]int{
		"mount": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS,
		"cgroup": unix.CLONE_NEWCGROUP, "pid": unix.CLONE_NEWPID, "time": unix.CLONE_NEWTIME,
	} {
		without := both
		if name != "mount" { // the first process may make some later
			without = append([]control.Name{control.UserNSLimit}, both...)
		}
		list = append(list, probe{
			name: name + " namespace", without: without, says: denied, optional: name == "time", own: name == "time",
			do: func() error { return call("unshare", flag) },
		})
	}
	for _, name := range []string{"ipc", "net", "uts"} {
		list = append(list, probe{
			name: "enter its own " + name + " namespace", without: both, says: denied,
			do: func() error { return enter(name) },
		})
	}
	return append(list,
		probe{name: "raw socket", without: both, says: denied, do: func() error { return openSocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }},
		probe{name: "packet socket", without: both, says: denied, do: func() error { return openSocket(unix.AF_PACKET, unix.SOCK_RAW, 0) }, optional: true},
		probe{name: "chroot", without: both, says: denied, apart: true, do: func() error { return unix.Chroot("/tmp") }},
	)
}

func loopbackDown() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	for _, flags := range []uint16{0, unix.IFF_UP | unix.IFF_RUNNING} {
		ifr.SetUint16(flags)
		err = errors.Join(err, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr))
	}
	return err
}

func bounding() error {
	for c := uintptr(0); ; c++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			return errors.New("it is empty")
		}
		if has == 1 {
			return nil
		}
	}
}

// setuid runs a program that is root's in the cell.
func setuid() error {
	out, err := exec.Command("./suid", "-u").Output()
	if err == nil && strings.TrimSpace(string(out)) == "0" {
		return nil
	}
	return fmt.Errorf("held: %q, %w", out, err)
}

func shell(script string) error {
	out, err := exec.Command("/bin/sh", "-c", script).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.ToLower(string(out)))
	}
	return nil
}

// nested runs a script in its own namespaces, as root there.
func nested(flags uintptr, script string) error {
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = rootIn(flags)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func rootIn(flags uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  flags,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
}

// mountNested tries the probe "mount" again in its own namespaces: not every
// system has a program for it.
func mountNested() error {
	cmd := exec.Command("/src/project/probe")
	cmd.Env = append(os.Environ(), envAttack+"=mount")
	cmd.SysProcAttr = rootIn(unix.CLONE_NEWUSER | unix.CLONE_NEWNS)
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var f finding
	if err := json.Unmarshal(out, &f); err != nil {
		return err
	}
	if f.Code != 0 {
		return errors.New(f.Text)
	}
	return nil
}

func enter(name string) error {
	fd, err := unix.Open("/proc/self/ns/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Setns(fd, 0)
}

// mountTmpfs attaches a new file system by descriptors.
func mountTmpfs(path string) error {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return err
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// mountProbes try to change what exists.
func mountProbes() []probe {
	two := []control.Name{control.Seccomp, control.Capabilities}
	three := append([]control.Name{control.Landlock}, two...)
	return []probe{
		{name: "fsopen", without: two, says: denied, do: func() error {
			_, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
			return err
		}},
		{name: "fspick", without: two, says: denied, do: func() error {
			_, err := unix.Fspick(unix.AT_FDCWD, "/dev/shm", 0)
			return err
		}},
		{name: "make the root writable", without: two, says: denied, alone: true, do: func() error {
			return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
		}},
		{name: "mount", without: three, says: denied, alone: true, do: func() error { return unix.Mount("none", "/tmp", "tmpfs", 0, "") }},
		{name: "bind", without: three, says: denied, alone: true, do: func() error { return unix.Mount("/proc", "/tmp", "", unix.MS_BIND, "") }},
		{name: "remount", without: three, says: denied, alone: true, do: func() error {
			return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "")
		}},
		{name: "mount by descriptor", without: three, says: denied, alone: true, do: func() error {
			return mountTmpfs("/tmp")
		}},
		{name: "take a mask off", without: three, says: denied, alone: true, do: func() error {
			return errors.Join(unix.Unmount("/src/project/.env", unix.MNT_DETACH), holds("/src/project/.env"))
		}},
		{name: "take a cover of /proc off", without: three, says: denied, alone: true, do: func() error {
			return errors.Join(unix.Unmount("/proc/keys", unix.MNT_DETACH), readable("/proc/keys"))
		}},
		{name: "control groups", without: three, says: denied, alone: true, optional: true, do: func() error {
			return unix.Mount("none", "/tmp", "cgroup2", 0, "")
		}},
		{name: "a /proc without covers", without: three, says: denied, alone: true, do: func() error {
			return errors.Join(unix.Mount("none", "/tmp", "proc", 0, ""), readable("/tmp/keys"))
		}},
		{name: "pivot_root", without: three, says: denied, alone: true, do: func() error {
			return errors.Join(unix.Mount("/tmp", "/tmp", "", unix.MS_BIND, ""), unix.Chdir("/tmp"), unix.PivotRoot(".", "."))
		}},
	}
}

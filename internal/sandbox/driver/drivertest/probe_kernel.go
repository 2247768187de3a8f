package drivertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
)

// kernelProbes reach for what is the whole host's. The kernel keeps it for the
// host's own root, who is not in any cell; so they can be shown for a root caller
// alone, whose cell without a user namespace would have him in it. What they
// write is what was there before.
func kernelProbes() []probe {
	var list []probe
	add := func(name, says string, without, rest []control.Name, do func() error) *probe {
		list = append(list, probe{name: "kernel: " + name, caller: "root", says: says, without: without, rest: rest, do: do})
		return &list[len(list)-1]
	}
	settings := []control.Name{control.UserNS, control.ReadOnlyProc, control.IDs}
	for _, name := range []string{"kernel/core_pattern", "kernel/panic", "vm/overcommit_memory", "fs/file-max"} {
		add("set "+name, "permission denied", settings, nil, func() error { return setAgain("/proc/sys/" + name) })
	}
	// A caller with capabilities over the host's files needs no other number.
	owner := []control.Name{control.IDs, control.Capabilities}
	add("/proc/sysrq-trigger", "", []control.Name{control.UserNS, control.ReadOnlyProc}, owner, func() error {
		f, err := os.OpenFile("/proc/sysrq-trigger", os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return f.Close()
	})
	list[len(list)-1].optional, list[len(list)-1].ownSuper = true, true
	for _, name := range []string{"kcore", "kpagecount", "kpageflags"} {
		add("/proc/"+name, "", []control.Name{control.UserNS, control.ProcMasks}, owner, func() error { return someOf("/proc/" + name) }).optional = true
	}
	all := []control.Name{control.UserNS, control.Seccomp, control.Capabilities, control.Landlock}
	add("a program at the end of a control group", denied, all, nil, releaseAgent).optional = true
	for _, name := range []string{"rcu_expedited", "uevent_helper"} {
		add("set "+name+" in a mount of sysfs", denied, all, nil, func() error {
			return errors.Join(unix.Mount("none", "/tmp", "sysfs", 0, ""), setAgain("/tmp/kernel/"+name))
		}).optional = true
	}
	// The filter lets this socket be made, see package seccomp.
	add("the audit log", denied, []control.Name{control.UserNS, control.Capabilities}, nil, auditLog).optional = true
	for i := range list {
		list[i].alone = len(list[i].without) == len(all)
	}
	return list
}

// auditLog asks for a copy of what the host's auditing records.
func auditLog() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT)
	if err != nil {
		return err
	}
	return errors.Join(unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.AUDIT_NLGRP_READLOG), unix.Close(fd))
}

// someOf reads a few bytes of a file that may have no end.
func someOf(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := f.Read(make([]byte, 64))
	if n > 0 {
		return nil
	}
	return fmt.Errorf("held: nothing in it: %w", err)
}

// releaseAgent sets the program that the kernel runs, as root of the host, when a
// control group of version 1 has become empty. The root of a hierarchy has it.
func releaseAgent() error {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	err = errors.New("held: no hierarchy of version 1 shows its root")
	for line := range strings.Lines(string(groups)) {
		part := strings.SplitN(line, ":", 3)
		if len(part) < 3 || part[1] == "" {
			continue
		}
		if err := unix.Mount("none", "/tmp", "cgroup", 0, part[1]); err != nil {
			return err
		}
		if unix.Access("/tmp/release_agent", unix.F_OK) == nil {
			return setAgain("/tmp/release_agent")
		}
	}
	return err
}

// capabilityProbes are about capabilities of files.
func capabilityProbes() []probe {
	return []probe{
		{
			name: "a program with file capabilities", without: []control.Name{control.NoNewPrivs, control.NoSUID, control.Capabilities},
			rest: []control.Name{control.Landlock, control.Seccomp}, caller: "root", says: "held", apart: true, super: true, do: fileCapabilities,
		},
		{name: "give a file capabilities", without: []control.Name{control.Capabilities}, says: denied, do: func() error {
			return errors.Join(os.WriteFile("privileged", nil, 0o755), unix.Setxattr("privileged", "security.capability", everyCapability(os.Getuid()), 0))
		}},
	}
}

// fileCapabilities runs a program that the workspace's owner has given all of
// them, as one who has none himself.
func fileCapabilities() error {
	// This also empties the set that is inherited whatever is executed.
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&hdr, &none[0]); err != nil {
		return err
	}
	out, err := exec.Command("./capable", "/proc/self/status").Output()
	if err != nil {
		return fmt.Errorf("held: %w", err)
	}
	_, rest, _ := strings.Cut(string(out), "CapEff:")
	effective, _, _ := strings.Cut(rest, "\n")
	if strings.Trim(strings.TrimSpace(effective), "0") == "" {
		return errors.New("held: it had none")
	}
	return nil
}

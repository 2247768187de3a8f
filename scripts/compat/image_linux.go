package main

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// makeImage makes a disk of a directory. Everything on it belongs to root, also
// if an ordinary user makes it: in a user namespace that user is root.
func makeImage(ctx context.Context, file, dir, size string) error {
	cmd := exec.CommandContext(ctx, "mke2fs", "-q", "-F", "-t", "ext4", "-E", "root_owner=0:0", "-d", dir, file, size)
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}},
		}
	}
	return quietly(cmd)
}

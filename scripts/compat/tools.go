package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

const emulator = "qemu-system-x86_64"

// needTools finds the programs that the lane is made of. As root it installs the
// ones that are missing.
func needTools(ctx context.Context) error {
	// mke2fs is in a directory that an ordinary user's PATH may not have.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin"); err != nil {
		return err
	}
	for _, name := range []string{"apt-get", "dpkg-deb", "tar"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("this lane takes its machine from Debian's archive and needs Debian's tools: %w", err)
		}
	}
	var packages []string
	for name, pkg := range map[string]string{emulator: "qemu-system-x86", "mke2fs": "e2fsprogs"} {
		if _, err := exec.LookPath(name); err != nil {
			packages = append(packages, pkg)
		}
	}
	if _, err := os.Stat(keyring); err != nil {
		packages = append(packages, "debian-archive-keyring")
	}
	if len(packages) == 0 {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("missing: Debian packages %s", strings.Join(packages, " "))
	}
	fmt.Println("installing", strings.Join(packages, " "))
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	if err := tool(ctx, env, "apt-get", "update", "-q"); err != nil {
		return err
	}
	return tool(ctx, env, "apt-get", append([]string{"install", "-q", "-y", "--no-install-recommends"}, packages...)...)
}

// tool runs a program that matters only if it fails.
func tool(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	return quietly(cmd)
}

func quietly(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// output runs a program for what it prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, stderr.String(), out)
	}
	return string(out), nil
}

// unpack puts the files of a package into dir, without its scripts. Links that
// stand for directories stay.
func unpack(ctx context.Context, pkg, dir string, more ...string) error {
	from := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", pkg)
	args := []string{"-x", "-C", dir, "--no-same-owner", "--keep-directory-symlink", "--warning=no-timestamp"}
	to := exec.CommandContext(ctx, "tar", append(args, more...)...)
	var said bytes.Buffer
	from.Stderr, to.Stderr = &said, &said
	pipe, err := from.StdoutPipe()
	if err != nil {
		return err
	}
	to.Stdin = pipe
	if err := from.Start(); err != nil {
		return err
	}
	if err := errors.Join(to.Run(), from.Wait()); err != nil {
		return fmt.Errorf("unpack %s: %w\n%s", pkg, err, said.String())
	}
	return nil
}

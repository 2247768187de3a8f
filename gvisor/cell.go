package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// containerID is the container's name: there is one in each directory. runsc finds
// containers by the beginning of their names, so all have the same length.
const containerID = "cell"

// image is where a saved container is, in its directory.
const image = "image"

// arguments returns runsc's for a command of Forkcell's, or nil for one that is
// runsc's already.
func arguments(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	switch args[0] {
	case "cell":
		return prepare(args[1:])
	case "offline":
		cell, err := prepare(args[1:])
		if err != nil {
			return nil, err
		}
		config, err := watchConnects(args[1])
		return append([]string{config}, cell...), err
	case "save", "resume":
		if len(args) != 2 {
			return nil, fmt.Errorf("%s takes a directory, not %d arguments", args[0], len(args)-1)
		}
		dir := args[1]
		how := "--image-path=" + filepath.Join(dir, image)
		if args[0] == "resume" {
			how = "--over"
		}
		return append(flags(dir), "moment", how, containerID), nil
	}
	return nil, nil
}

// forget removes a saved container.
func forget(dir string) error { return os.RemoveAll(filepath.Join(dir, image)) }

// prepare writes what runsc needs to run a cell's container, or to restore one that was
// saved, and returns its arguments for that.
func prepare(args []string) ([]string, error) {
	if len(args) != 2 && len(args) != 3 {
		return nil, fmt.Errorf("cell takes a directory, a specification and, to restore, a saved container, not %d arguments", len(args))
	}
	dir, spec := args[0], args[1]
	bundle := filepath.Join(dir, "bundle")
	if err := os.MkdirAll(bundle, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), []byte(spec), 0o600); err != nil {
		return nil, err
	}
	if len(args) == 3 {
		return append(flags(dir), "restore", "--bundle="+bundle, "--image-path="+args[2], containerID), nil
	}
	return append(flags(dir), "run", "--bundle="+bundle, containerID), nil
}

// flags are runsc's for every container. The process is in a cell's namespaces
// already: its network is the cell's, its control group too.
func flags(dir string) []string {
	return []string{
		"--root=" + filepath.Join(dir, "state"),
		// No machine for tests has KVM, and few of the users' virtual machines.
		"--platform=systrap",
		// The sockets of the container are those of the cell's network namespace, in
		// which the host side captures every connection.
		"--network=host",
		// The gofer changes names, not the sandbox: the mounts over masked and read-only
		// files are in its mount namespace, where the kernel protects their names.
		"--directfs=false",
		// What is written goes to the cell's own overlays, not to one in memory.
		"--overlay2=none",
		// Sockets and pipes of the host cannot be reached.
		"--host-uds=none",
		"--host-fifo=none",
		"--ignore-cgroups",
		"--host-settings=ignore",
		// The only program that runsc executes is this one.
		"--sidecar-usage-policy=LEGACY_DEPRECATED_SLOW_EMBEDDED_FALLBACK",
	}
}

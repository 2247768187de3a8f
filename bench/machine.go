package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// describe returns on what the figures were taken.
func describe(ctx context.Context, b *bench) (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", err
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return "", err
	}
	fsType, err := exec.CommandContext(ctx, "df", "--output=fstype", b.work).Output()
	if err != nil || len(bytes.TrimSpace(fsType)) == 0 {
		return "", fmt.Errorf("file system of %s: %w", b.work, err)
	}
	who := "an ordinary user"
	if os.Geteuid() == 0 {
		who = "root"
	}
	own, err := exec.CommandContext(ctx, b.program, "version").Output()
	if err != nil {
		return "", err
	}
	peer, err := exec.CommandContext(ctx, "bwrap", "--version").Output()
	if err != nil {
		return "", err
	}
	memory := info.Totalram * uint64(info.Unit) >> 20
	return fmt.Sprintf("%d cores (%s), %d MiB of memory, Linux %s, %s, as %s; %s, %s", runtime.NumCPU(), processor(), memory,
		string(bytes.TrimRight(name.Release[:], "\x00")), last(fsType), who,
		strings.TrimSpace(string(own)), strings.TrimSpace(string(peer))), nil
}

// last is the last word of a table with one column.
func last(table []byte) string {
	fields := strings.Fields(string(table))
	return fields[len(fields)-1]
}

func processor() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

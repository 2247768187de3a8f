package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// bootAll runs root's jobs in one machine and the ordinary user's in another, side
// by side: each keeps one processor busy.
func bootAll(ctx context.Context, m *machine, deadline time.Duration, rep *report) error {
	var wait sync.WaitGroup
	var errs [2]error
	for i, user := range []bool{false, true} {
		f := &feed{report: rep, jobs: jobsOf(rep.jobs, user)}
		if len(f.jobs) == 0 {
			continue
		}
		wait.Go(func() {
			console := filepath.Join(m.dir, "console-"+who(user)+".log")
			err := boot(ctx, m, user, console, deadline, f)
			if err = errors.Join(err, checkConsole(console)); err != nil {
				errs[i] = fmt.Errorf("the machine for %s: %w", who(user), err)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs[:]...)
}

// boot runs a machine to its end and reads its report.
//
// The emulator is no KVM: it works the same on any host, also inside of other
// virtual machines. While the machine works its clock counts instructions, two
// nanoseconds each, so a test that allows half a second gets as many instructions
// on a busy host as on a quiet one. While it waits, as for a disk, its clock goes
// as the host's does; passing over idle time would let its timers run ahead.
func boot(ctx context.Context, m *machine, user bool, console string, deadline time.Duration, f *feed) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, emulator,
		"-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none", "-no-reboot",
		"-machine", "q35", "-accel", "tcg", "-icount", "shift=1,sleep=on", "-smp", "1", "-m", "2048", "-nic", "none",
		"-kernel", m.system.image, "-initrd", m.initrd,
		"-append", "console=ttyS0 panic=-1 loglevel=5 mitigations=off "+whoVariable+"="+who(user),
		// Writes of the machine go nowhere.
		"-drive", "if=virtio,format=raw,snapshot=on,cache=unsafe,file="+m.system.disk,
		"-drive", "if=virtio,format=raw,snapshot=on,cache=unsafe,file="+m.disk,
		"-serial", "file:"+console,
		"-chardev", "stdio,id=report,signal=off", "-serial", "chardev:report",
	)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := readRecords(out, f.names(), f.take)
	if readErr != nil {
		// Nothing that it could still say would be believed.
		_ = cmd.Process.Kill()
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return errors.Join(fmt.Errorf("the machine was stopped after %s: %w", deadline, ctx.Err()), readErr)
	}
	if readErr != nil {
		return fmt.Errorf("the machine's report: %w\n%s%s", readErr, stderr.String(), tail(console))
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s%s", emulator, err, stderr.String(), tail(console))
	}
	return nil
}

// tail is the end of what the kernel said.
func tail(console string) string {
	data, err := os.ReadFile(console)
	if err != nil {
		return ""
	}
	lines := strings.SplitAfter(string(data), "\n")
	return "the console ends with:\n" + strings.Join(lines[max(0, len(lines)-30):], "")
}

// checkConsole looks for what a kernel says when it is no longer well. Tests that
// passed on such a kernel prove nothing. A trace alone is no complaint: a process
// that a memory limit kills has one too.
func checkConsole(console string) error {
	data, err := os.ReadFile(console)
	if err != nil {
		return err
	}
	bad := regexp.MustCompile(`(?m)^.*(BUG: |Oops|WARNING: CPU|Kernel panic).*$`)
	if found := bad.FindAllString(string(data), 5); found != nil {
		return fmt.Errorf("the kernel complained:\n%s", strings.Join(found, "\n"))
	}
	return nil
}

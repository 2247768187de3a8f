package gvisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// The beginnings of the command lines of the process that saves a guest, and of the guest.
const saver, sandbox = runtimePath + "\x00save\x00", "runsc-sandbox\x00"

// below lists the processes below a process, in whatever namespace.
func below(pid int) (list []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, _ := os.ReadFile(file) // none if it has ended
		_, rest, _ := strings.Cut(string(stat), ") ")
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if fields := strings.Fields(rest); err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			list = append(append(list, child), below(child)...)
		}
	}
	return list
}

// killProcess kills the process of the runtime's whose command line begins so, in the
// cell around a guest, and waits until it has ended.
func killProcess(c driver.Cell, args string) error {
	guest, ok := c.(*Cell)
	if !ok {
		return fmt.Errorf("%T", c)
	}
	first, ok := guest.outer.(interface{ PID() int })
	if !ok {
		return fmt.Errorf("%T", guest.outer)
	}
	found := slices.DeleteFunc(below(first.PID()), func(pid int) bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return !strings.HasPrefix(string(text), args)
	})
	if len(found) != 1 {
		return fmt.Errorf("processes %v are %q", found, args)
	}
	fd, err := unix.PidfdOpen(found[0], 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		return err
	}
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// saves are the ways to stop and save a guest, with what is killed in the pause.
func saves(t *testing.T, cell driver.Cell, args string) map[string]func() error {
	t.Helper()
	c, ok := cell.(driver.Saver)
	if !ok {
		t.Fatalf("%T", cell)
	}
	kill := func() error { return killProcess(cell, args) }
	nothing := func() error { return nil }
	return map[string]func() error{
		"save": func() error {
			_, err := c.Save(t.Context(), t.TempDir(), kill)
			return err
		},
		"suspend": func() error {
			_, err := c.Suspend(t.Context(), t.TempDir(), kill, nothing)
			return err
		},
		"suspend that is not kept": func() error {
			_, err := c.Suspend(t.Context(), t.TempDir(), nothing, func() error { return errors.Join(kill(), errors.New("no space")) })
			return err
		},
	}
}

// TestSaverKilled: a guest goes on if the process that has stopped it is killed, and can
// be saved again.
func TestSaverKilled(t *testing.T) {
	needRuntime(t)
	f := suite().Fixture(t)
	c := f.Start()
	script(t, f, c, warm)
	memory := strings.TrimPrefix(ask(t, f, c, "first"), "first ")
	for name, save := range saves(t, c, saver) {
		if err := save(); err == nil || errors.Is(err, driver.ErrEnded) || !strings.Contains(err.Error(), "save the guest: exit code 137") {
			t.Fatalf("%s: %v", name, err)
		}
		if got := ask(t, f, c, "again"); got != "again "+memory {
			t.Errorf("%s: it says %q, not %q", name, got, memory)
		}
	}
	saved(t, f, c)
}

// TestGuestKilledInThePause: who saves a guest that is killed learns that it has ended.
func TestGuestKilledInThePause(t *testing.T) {
	needRuntime(t)
	for _, name := range []string{"save", "suspend", "suspend that is not kept"} {
		t.Run(name, func(t *testing.T) {
			f := suite().Fixture(t)
			c := f.Start()
			script(t, f, c, "true")
			if err := saves(t, c, sandbox)[name](); !errors.Is(err, driver.ErrEnded) {
				t.Error(err)
			}
		})
	}
}

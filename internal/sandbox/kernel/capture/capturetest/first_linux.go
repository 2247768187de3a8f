package capturetest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture"
)

// first is the cell's first process: it sets the network up, sends the sockets
// to the host side and runs commands. Go's other threads keep their
// capabilities, but this thread starts the commands and has none left.
func first() error {
	runtime.LockOSThread()
	sock := os.NewFile(3, "control")
	unix.CloseOnExec(3)
	var o Options
	if _, err := receive(sock, &o); err != nil {
		return err
	}
	s, took, err := build(o)
	if err != nil {
		return send(sock, reply{Err: err.Error()})
	}
	err = send(sock, reply{Setup: took}, s.Descriptors()...)
	s.Close()
	if err != nil {
		return err
	}
	// No process in the cell may inspect the first process, but the host's side
	// must.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	for {
		var next order
		if _, err := receive(sock, &next); err != nil {
			return nil // the test is over
		}
		if err := send(sock, execute(next)); err != nil {
			return err
		}
	}
}

func build(o Options) (*capture.Sockets, time.Duration, error) {
	if err := mounts(o); err != nil {
		return nil, 0, fmt.Errorf("mounts: %w", err)
	}
	start := time.Now()
	s, err := capture.Setup()
	return s, time.Since(start), err
}

func mounts(o Options) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	settings := capture.Settings()
	if o.NoIPv6 {
		settings = append(settings, capture.Setting{File: "net/ipv6/conf/all/disable_ipv6", Value: "1"})
	}
	for _, s := range settings {
		//nolint:forbidigo // a setting of the kernel's, not a file
		if err := os.WriteFile("/proc/sys/"+s.File, []byte(s.Value), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if o.Scratch == "" {
		return nil
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return err
	}
	return unix.Mount("tmpfs", o.Scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700")
}

func execute(o order) reply {
	var cmd *exec.Cmd
	if o.Name != "" {
		self, err := os.Executable()
		if err != nil {
			return reply{Err: err.Error()}
		}
		cmd = exec.Command(self)
		cmd.Args = append([]string{probePrefix + o.Name}, o.Args...)
	} else {
		cmd = exec.Command(o.Args[0], o.Args[1:]...)
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	r := reply{}
	if err := cmd.Run(); err != nil {
		r.Err = fmt.Sprintf("%v: %s", err, bytes.TrimSpace(errOut.Bytes()))
	}
	r.Output = out.String()
	return r
}

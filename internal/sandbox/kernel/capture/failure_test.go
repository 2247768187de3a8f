package capture_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture"
)

// brokenProbe tries, in a new namespace each, what must fail.
func brokenProbe([]string) error {
	runtime.LockOSThread()
	isolated := func(what string, f func() error) error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		err := f()
		fmt.Printf("%s: %v %v\n", what, err, errors.Is(err, capture.ErrUnsupported))
		return nil
	}
	load := func(change func(string) string) func() error { return func() error { return capture.Load(change) } }
	return errors.Join(
		isolated("whole", load(func(b string) string { return b })),
		isolated("part missing in the kernel", load(func(b string) string {
			return strings.ReplaceAll(b, "tproxy\x00", "tprozy\x00")
		})),
		isolated("cut short", load(func(b string) string { return b[:len(b)-30] })),
		isolated("nothing asks for an answer", load(silent)),
		isolated("twice", func() error {
			s, err := capture.Setup()
			if err != nil {
				return err
			}
			defer s.Close()
			_, err = capture.Setup()
			return err
		}),
	)
}

// silent clears the flag by which messages ask for an answer.
func silent(messages string) string {
	b := []byte(messages)
	for at := 0; at < len(b); {
		m := b[at:]
		binary.NativeEndian.PutUint16(m[6:], binary.NativeEndian.Uint16(m[6:])&^unix.NLM_F_ACK)
		at += int(binary.NativeEndian.Uint32(m)+3) &^ 3
	}
	return string(b)
}

// TestFailures shows that whatever the kernel does not confirm is an error.
func TestFailures(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Args = []string{"capturetest-probe:broken"}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN},
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"whole: <nil> false",
		"part missing in the kernel: chain in, rule DNS connection IPv4: not supported by this kernel: no such file or directory true",
		"cut short: ",
		"nothing asks for an answer: no answer false",
		"twice: interface: IPv4 address: file exists false",
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) || i > 0 && strings.Contains(got[i], "<nil>") {
			t.Errorf("%q, not %q", got[i], want[i])
		}
	}
}

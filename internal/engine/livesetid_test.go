package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// giveRights tries to leave a file in the current directory that gives rights
// to those who execute it. The probes of the driver try every call; this checks
// that a delta cell has the control.
func giveRights() (string, error) {
	program := []byte("evil")
	err := errors.Join(os.WriteFile("sh", program, 0o755), os.WriteFile("sg", program, 0o755), os.WriteFile("from", program, 0o755))
	if err != nil {
		return "", err
	}
	var done []string
	for name, try := range map[string]func() error{
		"chmod":    func() error { return unix.Chmod("sh", 0o6755) },
		"setgid":   func() error { return unix.Chmod("sg", 0o2755) },
		"whiteout": func() error { return unix.Renameat2(unix.AT_FDCWD, "from", unix.AT_FDCWD, "to", unix.RENAME_WHITEOUT) },
		"device":   func() error { return unix.Mknod("node", unix.S_IFCHR, 0) },
		"capability": func() error {
			return unix.Setxattr("sh", "security.capability", []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0)
		},
		"create":    func() error { return made(unix.Open("made", unix.O_CREAT|unix.O_WRONLY, 0o4755)) },
		"link":      func() error { return os.Link("old", "link") },
		"rename":    func() error { return os.Rename("old", "renamed") },
		"write":     func() error { return os.WriteFile("old", program, 0) },
		"by memory": overwrite,
	} {
		if try() == nil {
			done = append(done, name)
		}
	}
	return fmt.Sprint("done: ", done), nil
}

func made(fd int, err error) error {
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

// overwrite changes a file through memory, which leaves its set-id bit.
func overwrite() error {
	fd, err := unix.Open("old", unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	mem, err := unix.Mmap(fd, 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		copy(mem, "evil")
		err = unix.Munmap(mem)
	}
	return errors.Join(err, unix.Close(fd))
}

// TestNoSetIDInLiveDirectory: a command cannot give a file of a live directory
// a set-id bit or a capability, make a device node, or change a file that has
// such a bit.
func TestNoSetIDInLiveDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := filepath.Join(w.source, "old")
	w.ok(os.WriteFile(old, []byte("good"), 0o755))
	w.ok(os.Chmod(old, 0o755|os.ModeSetuid))
	w.init("demo", "delta")
	res, out := w.inside("demo", "rights")
	if out != "done: []" {
		t.Errorf("got through: %s", out)
	}
	if !strings.Contains(res.Controls.Seccomp, "no set-id files") {
		t.Errorf("the receipt says %q", res.Controls.Seccomp)
	}
	entries, err := os.ReadDir(w.source)
	w.ok(err)
	for _, e := range entries {
		info, err := e.Info()
		w.ok(err)
		if e.Name() != "old" && info.Mode()&(os.ModeSetuid|os.ModeSetgid|os.ModeDevice) != 0 {
			t.Errorf("%s is %s", e.Name(), info.Mode())
		}
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "good" {
		t.Errorf("old: %q, %v", text, err)
	}
	// The next run is an ordinary one.
	if res, out := w.sh("demo", "cat old; chmod 700 sh; mkdir -m 2755 d; git init -q . && git status --porcelain | wc -l"); res.Outcome != "succeeded" || !strings.HasPrefix(out, "good") {
		t.Errorf("%+v %s", res, out)
	}
	w.sound("demo")
}

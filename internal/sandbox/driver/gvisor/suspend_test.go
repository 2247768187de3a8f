package gvisor

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// TestSuspend: a guest that is suspended stands still from the moment that was saved, so
// its own files belong to its memory. Until it is kept, it can go on.
func TestSuspend(t *testing.T) {
	needRuntime(t)
	f := suite().Fixture(t)
	c := f.Start()
	script(t, f, c, counter)
	const counts = `from=$(cat n); while test "$(cat n)" -lt $((${from:-0}+20)) 2>/dev/null; do :; done; test ! -e bad`
	script(t, f, c, counts)
	nothing := func() error { return nil }
	failed := errors.New("no space")
	for name, fail := range map[string][2]func() error{
		"still": {func() error { return failed }, nothing}, "keep": {nothing, func() error { return failed }},
	} {
		if _, err := c.(driver.Saver).Suspend(t.Context(), t.TempDir(), fail[0], fail[1]); !errors.Is(err, failed) {
			t.Errorf("%s: %v", name, err)
		}
		script(t, f, c, counts)
	}
	// A command that waits for its input ends with the cell.
	input, _ := io.Pipe()
	begun, ended := make(chan struct{}), make(chan struct{})
	cmd := f.Command("cat")
	cmd.Executed = func(int) { close(begun) }
	go func() {
		defer close(ended)
		_, _ = c.Exec(t.Context(), cmd, driver.Stdio{In: input})
	}()
	<-begun
	image, files := t.TempDir(), t.TempDir()
	s, err := c.(driver.Saver).Suspend(t.Context(), image, nothing, nothing)
	if err != nil || s.Bytes <= 0 || s.Pause <= 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	<-ended
	// What is copied only now is of the moment of the memory.
	out, err := exec.CommandContext(t.Context(), "cp", "-a", f.Upper, filepath.Join(filepath.Dir(f.Upper), "home"), f.Shared, files).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	child, err := restored(t, f, image, files, "again")
	if err != nil {
		t.Fatal(err)
	}
	script(t, f, child, counts)
	if _, err := os.Stat(filepath.Join(image, guestFile)); err != nil {
		t.Error(err)
	}
}

package native

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// TestOpen opens files of a cell without a command: it reaches what commands reach,
// follows links inside the cell only, and waits for nothing.
func TestOpen(t *testing.T) {
	f := newFixture(t, Options{})
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := f.Start().(*Cell)
	const script = `echo inside > file; ln -s file link; ln -s /src/project/file absolute; ln -s loop loop
mkfifo fifo; mkdir dir; echo no > closed; chmod 0 closed; ln -s "$SECRET" leak; ln -s "../../../../../../../../../..$SECRET" up`
	cmd := f.Command(script)
	cmd.Env = append(cmd.Env, "SECRET="+secret)
	if o, err := c.Exec(t.Context(), cmd, driver.Stdio{}); err != nil || o.Code != 0 {
		t.Fatalf("%+v, %v", o, err)
	}
	for _, name := range []string{"file", "link", "absolute"} {
		if text := openedText(t, c, "/src/project/"+name); text != "inside\n" {
			t.Errorf("%s: %q", name, text)
		}
	}
	// On the host the links lead to the secret.
	if text, err := os.ReadFile(filepath.Join(f.Upper, "leak")); err != nil || string(text) != "of the host" {
		t.Errorf("the probe is no probe: %q, %v", text, err)
	}
	for _, path := range []string{
		"/src/project/leak", "/src/project/up", secret, "/src/project/loop", "/src/project/fifo", "/src/project/dir", "/src/project/closed",
		"/src/project/none", "/src/project/file/x", "/dev/zero", "/dev/tty", "/dev/ptmx", "", strings.Repeat("a/", 3000),
		"/proc/self/exe", "/proc/1/exe", "/proc/self/fd/0", "/proc/self/fd/3", "/proc/self/root/src/project/file", "/proc/self/cwd/file",
	} {
		if o, err := c.Open(path); err == nil {
			text, _ := io.ReadAll(io.LimitReader(o, 100))
			_ = o.Close()
			t.Errorf("%s was opened: %q", path, text)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Open("/src/project/file"); err == nil {
		t.Error("a file of a cell that has ended was opened")
	}
}

func openedText(t *testing.T, c *Cell, path string) string {
	t.Helper()
	o, err := c.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	text, err := io.ReadAll(o)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

package repo

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// programs holds the programs that tests look at. Each is linked once: that takes
// seconds of processor time.
var programs struct{ lean, whole, probes func() (string, error) }

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "forkcell-repo-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	once := func(tags string) func() (string, error) {
		return sync.OnceValues(func() (string, error) { return link(filepath.Join(dir, "forkcell"+tags), tags) })
	}
	programs.lean, programs.whole, programs.probes = once("lean"), once(""), once("probes")
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// link builds the program with build tags.
func link(file, tags string) (string, error) {
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-tags", tags, "-o", file, "./cmd/forkcell")
	cmd.Dir = filepath.Join("..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program with tags %q: %w\n%s", tags, err, out)
	}
	return file, nil
}

// program returns the file of a program of [programs].
func program(t *testing.T, build func() (string, error)) string {
	t.Helper()
	file, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

package cellinit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/driver/packages"
)

// A program that others than root can change, or put another in place of, is not run as
// root.
func TestRootProgram(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "dpkg")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err := rootProgram(packages.Manager{Name: "dpkg", Paths: []string{file}}); err == nil || !strings.Contains(err.Error(), "others than root can change") {
		t.Errorf("got %q, %v", path, err)
	}
	if path, err := rootProgram(packages.Manager{Name: "none", Paths: []string{"/no/such/program"}}); err == nil {
		t.Errorf("got %q", path)
	}
	const env = "/usr/bin/env"
	if got, err := rootProgram(packages.Manager{Name: "env", Paths: []string{"/no/such/program", env}}); err != nil || got != env {
		t.Errorf("got %q, %v", got, err)
	}
	link := filepath.Join(t.TempDir(), "dpkg")
	if err := os.Symlink(env, link); err != nil {
		t.Fatal(err)
	}
	if path, err := rootProgram(packages.Manager{Name: "dpkg", Paths: []string{link}}); err == nil {
		t.Errorf("got %q", path)
	}
}

// What a command asks for is a package manager by its bare name; malformed calls are
// refused.
func TestPackageOrder(t *testing.T) {
	t.Parallel()
	call := func(workdir string, args ...string) *protocol.PackageCall {
		return &protocol.PackageCall{Args: protocol.Bytes(args), Workdir: []byte(workdir), Env: protocol.Bytes([]string{"LD_PRELOAD=/tmp/x.so", "TERM=vt100"})}
	}
	three := []int{0, 1, 2}
	for name, c := range map[string]struct {
		call    *protocol.PackageCall
		streams []int
	}{
		"no arguments":       {call("/"), three},
		"another program":    {call("/", "sh"), three},
		"a path":             {call("/", "/usr/bin/dpkg"), three},
		"a path above":       {call("/", "../../bin/dpkg"), three},
		"two streams":        {call("/", "dpkg"), three[:2]},
		"four streams":       {call("/", "dpkg"), []int{0, 1, 2, 3}},
		"relative directory": {call("x", "dpkg"), three},
		"zero byte":          {call("/", "dpkg", "a\x00b"), three},
		"zero in directory":  {call("/\x00", "dpkg"), three},
	} {
		if o, err := packageOrder(c.call, c.streams); err == nil {
			t.Errorf("%s: got %q", name, o.Args)
		}
	}
	if _, err := os.Stat("/usr/bin/dpkg"); err != nil {
		t.Skip("this host has no dpkg")
	}
	o, err := packageOrder(call("/src", "dpkg", "-i", "x.deb"), three)
	if err != nil {
		t.Fatal(err)
	}
	if got := protocol.Strings(o.Args); !slices.Equal(got, []string{"/usr/bin/dpkg", "-i", "x.deb"}) {
		t.Errorf("got %q", got)
	}
	env := protocol.Strings(o.Env)
	if slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "LD_PRELOAD=") }) || !slices.Contains(env, "TERM=vt100") {
		t.Errorf("environment %q", env)
	}
}

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestModuleOrder(t *testing.T) {
	t.Parallel()
	files := map[string]string{"disk": "d/disk.ko", "bus_ring": "b/bus-ring.ko", "bus": "b/bus.ko", "loop_a": "loop-a.ko", "loop_b": "loop-b.ko", "lost": "lost.ko"}
	info := map[string]string{
		"d/disk.ko": "license=GPL\x00depends=bus,bus-ring\x00name=disk\x00", "b/bus.ko": "depends=bus_ring\x00", "b/bus-ring.ko": "depends=\x00",
		"loop-a.ko": "depends=loop_b", "loop-b.ko": "depends=loop-a", "lost.ko": "depends=absent",
	}
	needs := func(file string) ([]string, error) { return parseNeeds([]byte(info[file])), nil }
	got, err := moduleOrder(files, []string{"disk", "bus"}, needs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b/bus-ring.ko", "b/bus.ko", "d/disk.ko"}, got); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"loop-a", "lost", "absent"} {
		if _, err := moduleOrder(files, []string{name}, needs); err == nil {
			t.Errorf("%s has an order", name)
		}
	}
}

// The archive is read back as the kernel's documentation describes it.
func TestArchive(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	var want []string
	var out bytes.Buffer
	c := &cpio{out: &out}
	c.dir("dev")
	want = append(want, "dev 40755 \"\"")
	for size := range 9 {
		text := strings.Repeat("x", size)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		name := "f" + text
		c.copy(name, file)
		want = append(want, fmt.Sprintf("%s 100755 %q", name, text))
	}
	if err := c.finish(); err != nil {
		t.Fatal(err)
	}
	want = append(want, "TRAILER!!! 0 \"\"")
	var got []string
	for rest := out.Bytes(); len(rest) > 0; {
		const head = 110
		var field [13]int
		for i := range field {
			if _, err := fmt.Sscanf(string(rest[6+8*i:14+8*i]), "%X", &field[i]); err != nil {
				t.Fatal(err)
			}
		}
		if string(rest[:6]) != "070701" {
			t.Fatalf("magic %q", rest[:6])
		}
		size, name := field[6], string(rest[head:head+field[11]-1])
		start := (head + field[11] + 3) &^ 3
		got = append(got, fmt.Sprintf("%s %o %q", name, field[1], rest[start:start+size]))
		rest = rest[(start+size+3)&^3:]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	c.copy("missing", file+"-missing")
	if c.finish() == nil {
		t.Error("a missing file is no error")
	}
}

func TestSelectJobs(t *testing.T) {
	t.Parallel()
	all, err := selectJobs("")
	if err != nil {
		t.Fatal(err)
	}
	if root, user := jobsOf(all, false), jobsOf(all, true); len(root) != len(user) || len(root)+len(user) != len(all) {
		t.Errorf("%d jobs of root and %d of the user, of %d", len(root), len(user), len(all))
	}
	var names []string
	for _, j := range all {
		names = append(names, j.Name)
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(all) {
		t.Errorf("two jobs have one name: %q", names)
	}
	if _, err := selectJobs("^nothing$"); err == nil {
		t.Error("no job is no error")
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	j := job{Run: "^(TestA|TestB)$/^overlay$", Skip: "^TestAsOrdinaryUser$|^(TestB)$"}
	for name, want := range map[string]bool{"TestA": true, "TestB": false, "TestAsOrdinaryUser": false, "TestAB": false} {
		if got, err := matches(j, name); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got, err := matches(job{}, "TestA"); err != nil || !got {
		t.Errorf("a job of all tests: %v, %v", got, err)
	}
}

func TestCacheIsCompared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("linux_1.deb", "kernel")
	write("bash_2.deb", "shell")
	p, err := note(dir, "linux")
	if err != nil || p.Kernel.File != "linux_1.deb" || len(p.Userland) != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	list := filepath.Join(t.TempDir(), "packages.json")
	data := fmt.Sprintf(`{"Kernel":{"File":%q,"SHA256":%q},"Userland":[{"File":%q,"SHA256":%q}]}`, p.Kernel.File, p.Kernel.SHA256, p.Userland[0].File, p.Userland[0].SHA256)
	if err := os.WriteFile(list, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := checkPackages(list, dir); err != nil || cmp.Diff(p, got) != "" {
		t.Errorf("%+v, %v", got, err)
	}
	write("bash_2.deb", "another")
	if _, err := checkPackages(list, dir); err == nil {
		t.Error("a changed package was taken")
	}
	if _, err := note(dir, "absent"); err == nil {
		t.Error("a missing kernel was taken")
	}
}

func TestConsole(t *testing.T) {
	t.Parallel()
	for text, well := range map[string]bool{
		"[    2.1] hrtimer: interrupt took 10595230 ns\n[  287.0] reboot: Power down\n":                         true,
		"[    9.1] cell invoked oom-killer: gfp_mask=0xcc0\n[    9.1] Call Trace:\n":                            true,
		"[    9.1] WARNING: CPU: 0 PID: 7 at fs/overlayfs/super.c:1 ovl_get_inode+0x1/0x2\n":                    false,
		"[    9.1] BUG: kernel NULL pointer dereference, address: 0000000000000000\n":                           false,
		"[    9.1] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100\n[    9.2] more\n\n": false,
	} {
		file := filepath.Join(t.TempDir(), "console")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkConsole(file); (err == nil) != well {
			t.Errorf("%q: %v", text, err)
		}
	}
	if checkConsole(filepath.Join(t.TempDir(), "absent")) == nil {
		t.Error("no console is no error")
	}
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHash: the hash of a lane changes with its inputs and with the program, and with
// nothing else.
func TestHash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		git("add", "-A")
	}
	l := lane{"sdk", []string{"sdk"}}
	hash := func() string {
		t.Helper()
		h, err := l.hash(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	git("init", "-q")
	write("sdk/a.py", "1")
	write("internal/a/a.go", "1")
	last := hash()
	for _, c := range []struct {
		name    string
		changes bool
	}{
		{"sdk/a.py", true},
		{"sdk/b.py", true},
		{"internal/a/a.go", true},
		{"gvisor/main.go", true},
		{"Makefile", true},
		{"internal/a/a_test.go", false},
		{"internal/a/testdata/x", false},
		{"docs/a.md", false},
		{ledgerFile, false},
		{"CHANGELOG.md", false},
	} {
		write(c.name, "2")
		now := hash()
		if (now != last) != c.changes {
			t.Errorf("%s: the hash changes: %t, want %t", c.name, now != last, c.changes)
		}
		last = now
	}
	if _, err := (lane{"sdk", []string{":(nonsense)x"}}).hash(t.Context(), dir); err == nil {
		t.Error("a pattern that git refuses is none")
	}
}

// TestInputsExist: each pattern of a lane selects files, so that a move of files does not
// hide their changes.
func TestInputsExist(t *testing.T) {
	t.Parallel()
	for _, l := range append(lanes(), lane{"program", program}) {
		for _, pattern := range l.inputs {
			if pattern[0] == ':' {
				continue
			}
			if out, err := trackedFiles(t.Context(), "../..", []string{pattern}); err != nil || len(out) == 0 {
				t.Errorf("%s: %s selects nothing: %v", l.target, pattern, err)
			}
		}
	}
}

func TestLedger(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "passed")
	none, err := readLedger(file)
	if err != nil || len(none) != 0 {
		t.Fatal(none, err)
	}
	want := ledger{"sdk": {"00ff", "2026-01-02"}, "lint": {"11", "2026-01-03"}}
	if err := want.write(file); err != nil {
		t.Fatal(err)
	}
	got, err := readLedger(file)
	if err != nil || !cmp.Equal(want, got, cmp.AllowUnexported(entry{})) {
		t.Errorf("%v, %v", got, err)
	}
	if err := os.WriteFile(file, []byte("sdk 00ff\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readLedger(file); err == nil {
		t.Error("a malformed line is read")
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	all := lanes()
	if got, err := choose(all, ""); err != nil || len(got) != len(all) {
		t.Error(got, err)
	}
	if got, err := choose(all, "lint,sdk"); err != nil || len(got) != 2 || got[0].target != "lint" {
		t.Error(got, err)
	}
	if _, err := choose(all, "sdk,none"); err == nil {
		t.Error("a lane that does not exist is chosen")
	}
}

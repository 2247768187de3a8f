package fsx

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The order is what makes the file durable: it is kept in a golden file so that
// nobody changes it by accident.
func TestWriteFileOrder(t *testing.T) {
	t.Parallel()
	d, _ := tempRoot(t)
	var steps strings.Builder
	err := writeFile(d, "f", []byte("x"), 0o640, func(step string) error {
		names, err := d.Names()
		steps.WriteString(step + ": " + strings.Join(hideTemp(names), " ") + "\n")
		return err
	})
	check(t, err)
	names, err := d.Names()
	check(t, err)
	steps.WriteString("done: " + strings.Join(names, " ") + "\n")
	if *update {
		check(t, os.WriteFile(golden("writefile.golden"), []byte(steps.String()), 0o644))
		check(t, os.Chmod(golden("writefile.golden"), 0o644))
	}
	want, err := os.ReadFile(golden("writefile.golden"))
	check(t, err)
	if steps.String() != string(want) {
		t.Errorf("order of effects:\n%swant:\n%s", steps.String(), want)
	}
}

func hideTemp(names []string) []string {
	for i, n := range names {
		if strings.HasPrefix(n, TempPrefix) {
			names[i] = TempPrefix + "*"
		}
	}
	return names
}

func TestWriteFileFailsWhole(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, at := range []string{"fsx.create", "fsx.write", "fsx.sync", "fsx.rename", "fsx.syncdir"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			d, _ := tempRoot(t)
			check(t, d.Mkdir("sub", 0o700))
			check(t, WriteFile(d, "sub/f", []byte("old"), 0o600))
			err := writeFile(d, "sub/f", []byte("new"), 0o600, func(step string) error {
				if step == at {
					return broken
				}
				return nil
			})
			if !errors.Is(err, broken) {
				t.Fatalf("got %v", err)
			}
			want := "old"
			if at == "fsx.syncdir" { // in place, but perhaps not for long
				want = "new"
			}
			if s, err := get(d, "sub/f"); err != nil || s != want {
				t.Errorf("holds %q, %v", s, err)
			}
			sub, err := d.OpenDir("sub")
			check(t, err)
			defer func() { _ = sub.Close() }()
			if names, err := sub.Names(); err != nil || len(names) != 1 {
				t.Errorf("left %q, %v", names, err)
			}
		})
	}
}

func TestWriteFileReplacesALinkItself(t *testing.T) {
	t.Parallel()
	d, _ := tempRoot(t)
	put(t, d, "target", "untouched", 0o600)
	check(t, d.Symlink("target", "f"))
	check(t, WriteFile(d, "f", []byte("new"), 0o604))
	info, err := d.Lstat("f")
	check(t, err)
	if !info.IsRegular() || info.Mode != 0o604 {
		t.Errorf("got %+v", info)
	}
	if s, _ := get(d, "target"); s != "untouched" {
		t.Errorf("the link's target holds %q", s)
	}
}

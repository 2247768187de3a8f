package apply

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestKeptFilesStay(t *testing.T) {
	t.Parallel()
	m := model{
		"d": dir(), "d/x": file("x"), "d/sub": dir(), "d/sub/.env": file("secret"), "d/sub/y": file("y"),
		"d/all": dir(), "d/all/z": file("z"), "e": dir(), "e/f": file("f"),
	}
	opt := Options{Keep: func(path string, _ bool) bool { return baseOf(path) == ".env" }}
	known := m.without("d/sub/.env")
	p := newPlace(t, m)
	report, err := execute(t, p, known, model{}, opt)
	check(t, err)
	if strings.Join(report.Kept, " ") != "d d/sub" {
		t.Errorf("kept: %q", report.Kept)
	}
	same(t, "after the apply", p.target, model{"d": dir(), "d/sub": dir(), "d/sub/.env": file("secret")})
	_, err = undo(t, p, "a1", opt)
	check(t, err)
	same(t, "after the undo", p.target, m)

	_, err = execute(t, p, known, model{"d": file("now a file")}, opt)
	var conflicts *ConflictError
	if !errors.As(err, &conflicts) {
		t.Errorf("a kept file was to make room: %v", err)
	}
	same(t, "after the refusal", p.target, m)
}

func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	check(t, os.WriteFile(filepath.Join(outside, "f"), []byte("outside"), 0o644))
	from := model{"d": dir(), "d/f": file("inside")}
	p := newPlace(t, from)
	check(t, os.RemoveAll(filepath.Join(p.target, "d")))
	check(t, os.Symlink(outside, filepath.Join(p.target, "d")))
	for _, to := range []model{{"d": dir(), "d/f": file("new")}, {"d": dir(), "d/f": file("inside"), "d/g": file("new")}, {}} {
		_, err := execute(t, p, from, to, Options{})
		var conflicts *ConflictError
		if !errors.As(err, &conflicts) {
			t.Errorf("got %v", err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(outside, "f")); err != nil || string(b) != "outside" {
		t.Errorf("outside: %q, %v", b, err)
	}
	if names, err := os.ReadDir(outside); err != nil || len(names) != 1 {
		t.Errorf("outside has %v, %v", names, err)
	}
}

func TestMountsInTheTarget(t *testing.T) {
	t.Parallel()
	needRoot(t)
	from := model{"m": dir(), "m/f": file("hidden below"), "out": dir()}
	p := newPlace(t, from)
	check(t, os.WriteFile(filepath.Join(p.target, "out", "f"), []byte("hidden below"), 0o644))
	check(t, os.Chmod(filepath.Join(p.target, "out", "f"), 0o644))
	if err := unix.Mount(p.target+"/out", p.target+"/m", "", unix.MS_BIND, ""); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	defer func() { _ = unix.Unmount(p.target+"/m", unix.MNT_DETACH) }()
	for name, to := range map[string]model{
		"edit":   {"m": dir(), "m/f": file("x"), "out": dir()},
		"remove": {"out": dir()},
	} {
		if _, err := execute(t, p, from, to, Options{}); !errors.Is(err, errMount) {
			t.Errorf("%s: %v", name, err)
		}
	}
	noStaging(t, p.target)
}

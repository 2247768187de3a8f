package cli

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// madeUp is a host with the given files; what setup does to it is recorded.
func madeUp(root bool, user string, files map[string]string) (host, *[]string) {
	var done []string
	return host{
		root: root, executable: "/usr/local/bin/forkcell", user: user,
		read: func(name string) ([]byte, error) {
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		},
		write: func(name string, data []byte) error {
			files[name] = string(data)
			done = append(done, "write "+name)
			return nil
		},
		run: func(_ context.Context, argv []string) error {
			done = append(done, strings.Join(argv, " "))
			if argv[0] == "usermod" && files["fail"] != "" {
				return errors.New(files["fail"])
			}
			return nil
		},
		id: func(name string) string {
			if name == "nobody-such" {
				return ""
			}
			return "1234"
		},
	}, &done
}

func setup(t *testing.T, h host, o setupOptions, asJSON bool) (string, error) {
	t.Helper()
	var out bytes.Buffer
	s := newSession(nil, Streams{Out: &out, Err: &out}, "v")
	s.json = asJSON
	err := runSetup(t.Context(), s, h, o)
	_ = s.out.Flush()
	return out.String(), err
}

func TestSetupNothingToDo(t *testing.T) {
	t.Parallel()
	h, done := madeUp(true, "", map[string]string{})
	text, err := setup(t, h, setupOptions{}, false)
	if err != nil || text != "nothing to do\n" || len(*done) != 0 {
		t.Errorf("%q %v %v", text, err, *done)
	}
	text, err = setup(t, h, setupOptions{}, true)
	if err != nil || text != "{\"steps\":[]}\n" {
		t.Errorf("%q %v", text, err)
	}
}

// TestSetupUnknownCaller: SUDO_USER is a name of the environment, and would be an argument.
func TestSetupUnknownCaller(t *testing.T) {
	t.Parallel()
	h, done := madeUp(true, "nobody-such", map[string]string{restrictedFile: "1\n"})
	if _, err := setup(t, h, setupOptions{}, false); err == nil || !strings.Contains(err.Error(), "no such user") || len(*done) != 0 {
		t.Errorf("%v %v", err, *done)
	}
	if _, err := setup(t, h, setupOptions{user: "ann"}, false); err != nil || len(*done) == 0 {
		t.Errorf("another user: %v %v", err, *done)
	}
}

// TestSetupBelowSource: the profile names a path, and what a cell wrote may come to be there.
func TestSetupBelowSource(t *testing.T) {
	t.Parallel()
	for dir, refused := range map[string]bool{"/usr/local": true, "/usr/local/bin/forkcell": true, "/usr/lo": false, "/srv": false} {
		h, done := madeUp(true, "", map[string]string{restrictedFile: "1\n"})
		h.written = func() ([]string, error) { return []string{dir}, nil }
		if _, err := setup(t, h, setupOptions{}, false); (err != nil) != refused || refused == (len(*done) > 0) {
			t.Errorf("a cell from %s: %v %v", dir, err, *done)
		}
	}
}

// TestSetupReplaceable: a user who can change the program gets no right for it. Cells of that
// user are in a home of which root's knows nothing.
func TestSetupReplaceable(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "bin", "forkcell")
	if err := errors.Join(os.Mkdir(filepath.Dir(program), 0o755), os.WriteFile(program, nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func() error
		at     string
	}{
		{func() error { return nil }, ""},
		{func() error { return os.Chmod(program, 0o775) }, program},
		{func() error { return errors.Join(os.Chmod(program, 0o755), os.Chmod(filepath.Dir(program), 0o777)) }, filepath.Dir(program)},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		want := c.at
		if os.Geteuid() != 0 {
			want = program // it belongs to another
		}
		at, err := replaceable(program)
		if err != nil || at != want {
			t.Errorf("%q, %v, want %q", at, err, want)
		}
		h, done := madeUp(true, "ann", map[string]string{restrictedFile: "1\n"})
		h.replaceable = func(string) (string, error) { return at, err }
		for _, dry := range []bool{true, false} {
			_, err := setup(t, h, setupOptions{dryRun: dry}, false)
			if refused := at != "" && !dry; refused != (err != nil) || (dry || refused) != (len(*done) == 0) {
				t.Errorf("%q, dry run %t: %v %v", at, dry, err, *done)
			}
		}
	}
}

func TestSetupPrintsAndDoes(t *testing.T) {
	t.Parallel()
	files := func() map[string]string {
		return map[string]string{restrictedFile: "1\n", subUIDFile: "bob:100000:65536\n", subGIDFile: "ann:200000:65536\n"}
	}
	h, done := madeUp(false, "ann", files())
	text, err := setup(t, h, setupOptions{}, false)
	if err != nil || len(*done) != 0 {
		t.Fatalf("%v %v", err, *done)
	}
	for _, want := range []string{
		"1. AppArmor profile: ", "   write /etc/apparmor.d/forkcell:\n", `profile forkcell "/usr/local/bin/forkcell" flags=(unconfined) {`,
		"run: apparmor_parser --replace", "2. subordinate ids: ", "run: usermod --add-subuids 265536-331071 ann\n", "sudo forkcell setup\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	all := files()
	h, done = madeUp(true, "ann", all)
	if _, err := setup(t, h, setupOptions{dryRun: true}, false); err != nil || len(*done) != 0 {
		t.Fatalf("dry run: %v %v", err, *done)
	}
	if _, err := setup(t, h, setupOptions{}, false); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"write /etc/apparmor.d/forkcell", "apparmor_parser --replace --write-cache /etc/apparmor.d/forkcell",
		"usermod --add-subuids 265536-331071 ann",
	}
	if diff := cmp.Diff(want, *done); diff != "" {
		t.Error(diff)
	}
	// Once is enough.
	all[subUIDFile] += "ann:265536:65536\n"
	h, done = madeUp(true, "ann", all)
	if text, err := setup(t, h, setupOptions{}, false); err != nil || text != "nothing to do\n" || len(*done) != 0 {
		t.Errorf("%q %v %v", text, err, *done)
	}
}

func TestSetupControlGroups(t *testing.T) {
	t.Parallel()
	const controllers = "/sys/fs/cgroup/user.slice/user-1234.slice/user@1234.service/cgroup.controllers"
	files := map[string]string{subUIDFile: "ann:100000:65536\n", subGIDFile: "ann:100000:65536\n", controllers: "memory pids\n"}
	h, done := madeUp(true, "ann", files)
	text, err := setup(t, h, setupOptions{}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1. control groups: ", "does not hand cpu to user ann", "Delegate=cpu memory pids\n", "run: systemctl daemon-reload\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if diff := cmp.Diff([]string{"write " + delegateFile, "systemctl daemon-reload"}, *done); diff != "" {
		t.Error(diff)
	}
	// It is written, and waits for the next login.
	h, _ = madeUp(true, "ann", files)
	if text, err := setup(t, h, setupOptions{}, false); err != nil || text != "nothing to do\n" {
		t.Errorf("%q %v", text, err)
	}
	h, _ = madeUp(false, "ann", map[string]string{subUIDFile: files[subUIDFile], subGIDFile: files[subGIDFile], controllers: "cpu io memory pids\n"})
	if text, err := setup(t, h, setupOptions{}, false); err != nil || text != "nothing to do\n" {
		t.Errorf("all there: %q %v", text, err)
	}
}

func TestSetupFailure(t *testing.T) {
	t.Parallel()
	h, _ := madeUp(true, "", map[string]string{"fail": "no usermod"})
	text, err := setup(t, h, setupOptions{user: "ann"}, true)
	if err == nil || !strings.Contains(err.Error(), "no usermod") || !strings.Contains(text, `"status":"failed"`) {
		t.Errorf("%q %v", text, err)
	}
	if _, err := setup(t, h, setupOptions{user: "nobody-such"}, false); exitOf(err, false) != exitUsage {
		t.Errorf("unknown user: %v", err)
	}
}

func TestProfilePathMatchesOnlyItself(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/usr/bin/forkcell": `"/usr/bin/forkcell"`,
		"/a b/[x]*?{y}":     `"/a b/\[x\]\*\?\{y\}"`,
		"/q\"\\\n":          `"/q\"\\\012"`,
	} {
		if got := profilePath(path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
}

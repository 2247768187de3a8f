package files_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/incell/files"
)

// run carries out an operation.
func run(t *testing.T, want int, stdin io.Reader, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	if code := files.Main(append([]string{files.Verb}, args...), stdin, &out, &errs); code != want {
		t.Errorf("%v: %d, want %d: %s", args, code, want, errs.String())
	}
	return out.String()
}

// TestWrite replaces a file, and leaves it alone if the contents are cut off.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := filepath.Join(dir, "sub", "file")
	var whole bytes.Buffer
	contents := strings.Repeat("0123456789", 100_000)
	if err := files.Send(&whole, strings.NewReader(contents)); err != nil {
		t.Fatal(err)
	}
	run(t, files.Done, bytes.NewReader(whole.Bytes()), files.Write, at, "600")
	check := func(want string) {
		t.Helper()
		text, err := os.ReadFile(at)
		names, _ := os.ReadDir(filepath.Dir(at))
		if err != nil || string(text) != want || len(names) != 1 {
			t.Errorf("%d bytes, %v, %v", len(text), err, names)
		}
	}
	check(contents)
	for _, n := range []int{0, 3, 4, 100, whole.Len() - 1, whole.Len() - 4} {
		run(t, files.Failed, bytes.NewReader(whole.Bytes()[:n]), files.Write, at, "")
		check(contents)
	}
	run(t, files.Done, bytes.NewReader(make([]byte, 4)), files.Write, at, "")
	check("")
	if info, err := os.Stat(at); err != nil || info.Mode() != 0o600 {
		t.Error(info.Mode(), err)
	}
	run(t, files.Exists, bytes.NewReader(whole.Bytes()), files.Write, dir, "")
}

// TestSmall reads small files of a disk, and nothing else that a cell can open.
func TestSmall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	small, large := filepath.Join(dir, "small"), filepath.Join(dir, "large")
	for name, size := range map[string]int{small: 64 << 10, large: 64<<10 + 1} {
		if err := os.WriteFile(name, make([]byte, size), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{small, large, dir, "/dev/zero", "/proc/sys/kernel/hostname", "/proc/self/environ"} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		info, content, err := files.Small(f)
		if name == small && (err != nil || len(content) != 64<<10 || info.Size != 64<<10 || info.Mode != "0640" || info.Type != "file") {
			t.Errorf("%+v, %d bytes, %v", info, len(content), err)
		}
		if name != small && !errors.Is(err, files.ErrNotSmall) {
			t.Errorf("%s: %d bytes, %v", name, len(content), err)
		}
		_ = f.Close()
	}
}

// TestCodes makes each failure.
func TestCodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, files.NotFound, nil, files.Stat, dir+"/none")
	run(t, files.NotFile, nil, files.Read, dir)
	run(t, files.NotFile, nil, files.List, dir+"/file", "1")
	run(t, files.Exists, nil, files.Remove, dir, "false")
	run(t, files.NotFile, nil, files.Watch, dir+"/file", "false")
	run(t, files.Failed, nil, "other", dir)
	run(t, files.Done, nil, files.Remove, dir, "true")
}

// FuzzReader reads what a hostile program in a cell answers. It never returns more
// than the announced size, and never fails to end.
func FuzzReader(f *testing.F) {
	good, err := json.Marshal(api.FileInfo{Type: "file", Size: 3, Mode: "0644"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(good, "\n\x00\x00\x00\x03abc"...))
	f.Add(append(good, "\n\x00\x00\x00\x04abcd"...))
	f.Add(append(good, "\n\xff\xff\xff\xff"...))
	f.Add([]byte(`{"size":-1}` + "\n"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		r, err := files.NewReader(io.Discard, bytes.NewReader(answer))
		if err != nil {
			return
		}
		if n, _ := io.Copy(io.Discard, r); n > r.Info.Size || n > int64(len(answer)) {
			t.Errorf("%d bytes of %d", n, r.Info.Size)
		}
	})
}

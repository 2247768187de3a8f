package engine_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
)

// TestPrivateHostFiles: a cell of a root caller cannot read a file that its
// owner on the host keeps private, whoever owns it, whenever it was made, and
// however its directory is shown in the cell.
func TestPrivateHostFiles(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("what an ordinary caller may read is the kernel's business")
	}
	for _, c := range []struct {
		name, backend string
		change        func(dir string) func(*api.RunRequest)
	}{
		{"read_write overlay", "overlay", listedAs("read_write")},
		{"read_write clone", "clone", listedAs("read_write")},
		{"read_write delta", "delta", listedAs("read_write")},
		{"read_only", "overlay", listedAs("read_only")},
		{"--ro", "overlay", func(dir string) func(*api.RunRequest) {
			return func(r *api.RunRequest) { r.ReadOnly = []string{dir} }
		}},
		{"host-overlay", "overlay", func(string) func(*api.RunRequest) { return overHost }},
		{"host-overlay as root", "overlay", func(string) func(*api.RunRequest) { return asRoot }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.init("demo", c.backend)
			// Beneath a directory that host-overlay shows, too.
			dir, err := os.MkdirTemp("/opt", "forkcell-private-")
			w.ok(err)
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			w.ok(os.Chmod(dir, 0o755))
			hostFiles(w, dir, "early")
			out := w.during("demo", "cd "+dir+"; cat early-public; echo ready; read go; cat late-public; cat *-root *-user */inner; "+
				"cp early-root copy; mv early-root moved && cat moved; chmod 666 late-root && cat late-root; ln late-user hard && cat hard",
				func() { hostFiles(w, dir, "late") }, c.change(dir))
			if !strings.HasPrefix(out, "public\nready\n") || c.backend == "overlay" && !strings.HasPrefix(out, "public\nready\npublic\n") {
				t.Errorf("the cell said\n%s", out)
			}
			if strings.Contains(out, "secret") {
				t.Errorf("the cell read what it must not:\n%s", out)
			}
			w.sound("demo")
		})
	}
}

// TestSystemByAllowlist: --root host-overlay shows the system and the data of
// package managers. It shows nothing else of the host, not even files that
// everyone may read, or that are made later.
func TestSystemByAllowlist(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("--root host-overlay needs root")
	}
	w := newWorld(t)
	w.init("demo", "overlay")
	var dirs []string
	for _, above := range []string{"/srv", "/var/lib", "/var/cache", "/var/tmp", "/mnt", "/home"} {
		if info, err := os.Stat(above); err != nil || !info.IsDir() {
			continue
		}
		dir, err := os.MkdirTemp(above, "forkcell-other-")
		w.ok(err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		w.ok(os.Chmod(dir, 0o755))
		dirs = append(dirs, dir)
	}
	out := w.during("demo", "echo ready; read go; for d in "+strings.Join(dirs, " ")+"; do cat $d/file; ls $d; done; "+
		"ls /var/lib/dpkg/status /var/lib/apt; mkdir -p /var/lib/mine /var/log/mine && echo made", func() {
		for _, dir := range dirs {
			w.ok(os.WriteFile(filepath.Join(dir, "file"), []byte("other\n"), 0o644))
		}
	}, asRoot)
	if strings.Contains(out, "other") || strings.Contains(out, "file") || !strings.HasSuffix(out, "made\n") {
		t.Errorf("the cell said\n%s", out)
	}
	if list := w.changed("demo"); !hasLine(list, "added /var/lib/mine") || len(list) != 2 {
		t.Errorf("changes: %v", list)
	}
	w.sound("demo")
}

func listedAs(key string) func(dir string) func(*api.RunRequest) {
	return func(dir string) func(*api.RunRequest) {
		paths := map[string]string{"read_only": "/usr, /etc", "read_write": ""}
		paths[key] = strings.TrimPrefix(paths[key]+", "+dir, ", ")
		return ruledBy("version: 1\nfilesystem_policy:\n  read_only: [" + paths["read_only"] + "]\n  read_write: [" + paths["read_write"] + "]\n")
	}
}

// hostFiles makes a file that everyone may read, and some private files: of
// root, and of the account with the number of the cell's user.
func hostFiles(w *world, dir, when string) {
	w.Helper()
	write := func(name, text string, owner int, mode os.FileMode) {
		path := filepath.Join(dir, when+name)
		w.ok(os.MkdirAll(filepath.Dir(path), 0o700))
		w.ok(os.WriteFile(path, []byte(text), mode))
		w.ok(os.Chmod(path, mode))
		w.ok(os.Chown(path, owner, owner))
	}
	write("-public", "public\n", 0, 0o644)
	write("-root", "secret\n", 0, 0o600)
	write("-user", "secret\n", 1000, 0o640)
	write("-dir/inner", "secret\n", 0, 0o644)
}

// during runs a script that prints "ready" and then reads a line. After
// "ready", it calls do on the host.
func (w *world) during(name, script string, do func(), change func(*api.RunRequest)) string {
	w.Helper()
	req := api.RunRequest{Cell: name, Args: []string{"sh", "-c", script}}
	change(&req)
	in, line := io.Pipe()
	out := &readyWriter{ready: func() {
		do()
		go func() {
			_, _ = io.WriteString(line, "go\n")
			_ = line.Close()
		}()
	}}
	if _, err := w.e.Run(w.ctx, req, engine.Stdio{In: in, Out: out, Err: io.Discard}); err != nil {
		w.Fatalf("run %q: %v", script, err)
	}
	return out.String()
}

type readyWriter struct {
	bytes.Buffer
	ready func()
}

func (r *readyWriter) Write(p []byte) (int, error) {
	n, err := r.Buffer.Write(p)
	if r.ready != nil && strings.Contains(r.String(), "ready\n") {
		r.ready()
		r.ready = nil
	}
	return n, err
}

package main

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fileToken returns a file of tokens with one token, and its secret.
func fileToken(s *stdio, name string) (file, secret string) {
	s.Helper()
	file, errs, err := finish(s.T, s.program("token", "create", "--print-entry", "--name", name, "--scope", "read"))
	_, secret, ok := strings.Cut(strings.TrimSpace(errs), "shown only here: ")
	if err != nil || !ok {
		s.Fatal(err, errs)
	}
	return file, secret
}

// reloaded is a daemon that reads files again.
type reloaded struct {
	*stdio
	address string
	daemon  *exec.Cmd
	log     *bufio.Scanner
}

// serve starts the daemon.
func (r *reloaded) serve(flags ...string) {
	r.Helper()
	r.daemon = r.program(append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...)...)
	out, err := r.daemon.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	errs, err := r.daemon.StderrPipe()
	if err == nil {
		err = r.daemon.Start()
	}
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = r.daemon.Process.Kill(); _ = r.daemon.Wait() })
	r.log = bufio.NewScanner(errs)
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		r.Fatal(line, err)
	}
	r.address = address
}

// write writes a file, and returns its name.
func (r *reloaded) write(name, text string) string {
	r.Helper()
	file := filepath.Join(r.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
	return file
}

// reload sends the signal, and returns when the daemon has said what it did.
func (r *reloaded) reload(want string) {
	r.Helper()
	if err := r.daemon.Process.Signal(unix.SIGHUP); err != nil {
		r.Fatal(err)
	}
	for r.log.Scan() {
		if strings.Contains(r.log.Text(), want) {
			return
		}
	}
	r.Fatal("the daemon does not say ", want)
}

// want sends a request with a secret.
func (r *reloaded) want(status int, secret string) {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+r.address+"/v1/cells", http.NoBody)
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != status {
		r.Errorf("%s, want %d", resp.Status, status)
	}
}

// TestReload: SIGHUP makes a daemon read its file of tokens again. A file that is broken
// changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	r := &reloaded{stdio: &stdio{T: t, dir: t.TempDir()}}
	old, oldSecret := fileToken(r.stdio, "old")
	next, nextSecret := fileToken(r.stdio, "next")
	r.serve("--tokens", r.write("tokens", old))
	r.want(http.StatusOK, oldSecret)
	r.want(http.StatusUnauthorized, nextSecret)
	r.write("tokens", next)
	r.reload("reloaded")
	r.want(http.StatusUnauthorized, oldSecret)
	r.want(http.StatusOK, nextSecret)
	r.write("tokens", "broken")
	r.reload("invalid token")
	r.want(http.StatusOK, nextSecret)
}

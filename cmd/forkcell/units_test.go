package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnits checks the units of serve --systemd with systemd's own program, also for
// a state directory whose name has characters that units treat specially.
func TestUnits(t *testing.T) {
	t.Parallel()
	need(t, "/usr/bin/systemd-analyze")
	dir := t.TempDir()
	s := &stdio{T: t, dir: dir}
	cmd := s.program("--home", filepath.Join(dir, `100% "my" $home`), "serve", "--systemd")
	text, errs, err := finish(t, cmd)
	if err != nil {
		t.Fatal(err, errs)
	}
	socket, service, ok := strings.Cut(text, "# forkcell.service\n")
	if !ok || !strings.Contains(service, `/100%% \"my\" $$home"`) {
		t.Fatal(text)
	}
	if !strings.Contains(service, `"HOME=%h"`) { // a service of the system has none
		t.Error(text)
	}
	for name, unit := range map[string]string{"forkcell.socket": socket, "forkcell.service": service} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(unit), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	verify := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "./forkcell.socket", "./forkcell.service")
	verify.Dir = dir
	if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s\n%s", err, out, text)
	}
}

// TestSocketActivation connects to a socket before there is a daemon. systemd's own
// program starts it, and hands the socket over.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	need(t, "/usr/bin/systemd-socket-activate")
	dir, err := os.MkdirTemp("", "fc") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program, err := exec.LookPath("forkcell")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "api.sock")
	activate := exec.Command("systemd-socket-activate", "--listen="+socket, "--setenv=FORKCELL_HOME="+filepath.Join(dir, "state"), program, "serve")
	errs, err := activate.StderrPipe()
	if err == nil {
		err = activate.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = activate.Process.Kill(); _ = activate.Wait() })
	if _, err := errs.Read(make([]byte, 1)); err != nil { // it says that it listens
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, errs) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	for _, path := range []string{"/version", "/v1/cells"} {
		resp, err := client.Get("http://localhost" + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}

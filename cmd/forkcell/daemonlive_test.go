package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLiveOutlivesKilledDaemon kills the daemon that made a live cell. The command
// line and the next daemon find the cell, and no process of it has ended.
func TestLiveOutlivesKilledDaemon(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "fc") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	state, source := filepath.Join(dir, "state"), filepath.Join(dir, "src")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopLive(state) })
	program := func(args ...string) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", args...)
		cmd.Args[0] = "forkcell"
		cmd.Env = append(os.Environ(), "FORKCELL_HOME="+state)
		return cmd
	}
	kill := serveUntilKilled(t, program("serve"))
	post(t, state, "/v1/cells", `{"name":"demo","source":{"path":"`+source+`"}}`)
	post(t, state, "/v1/cells/demo/start", `{}`)
	post(t, state, "/v1/cells/demo/exec", `{"command":["sh","-c","sleep 1000 & echo $! > pid"]}`)
	kill()
	const alive = "kill -0 $(cat pid) && echo alive"
	out, errs, err := finish(t, program("exec", "demo", "--", "sh", "-c", alive))
	if err != nil || out != "alive\n" {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	kill = serveUntilKilled(t, program("serve"))
	defer kill()
	text := post(t, state, "/v1/cells/demo/exec", `{"command":["sh","-c","`+alive+`"]}`)
	var res struct{ Stdout string }
	if err := json.Unmarshal(text, &res); err != nil || res.Stdout != "alive\n" {
		t.Errorf("%v: %s", err, text)
	}
	post(t, state, "/v1/cells/demo/stop", `{"grace":"0s"}`)
}

// serveUntilKilled starts a daemon, and returns when it listens.
func serveUntilKilled(t *testing.T, cmd *exec.Cmd) (kill func()) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "listening on ") {
		kill()
		t.Fatalf("%v: %q %s", err, line, errs.String())
	}
	return kill
}

// post sends a request to the daemon on a home, and returns the answer.
func post(t *testing.T, state, path, body string) []byte {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(state, "api.sock"))
	}}
	resp, err := (&http.Client{Transport: transport}).Post("http://localhost"+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s: %s %v: %s", path, resp.Status, err, text)
	}
	return text
}

// TestInterruptWithUnreadInput interrupts a command of a daemon's cell that does not
// read its input.
func TestInterruptWithUnreadInput(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "fc") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Cleanup(func() { stopLive(dir) })
	program := func(args ...string) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", args...)
		cmd.Args[0] = "forkcell"
		cmd.Env = append(os.Environ(), "FORKCELL_HOME="+dir)
		return cmd
	}
	defer serveUntilKilled(t, program("serve"))()
	post(t, dir, "/v1/cells", `{"name":"demo","source":{"empty":true}}`)
	post(t, dir, "/v1/cells/demo/start", `{}`)
	cmd := program("--url", "unix:"+filepath.Join(dir, "api.sock"), "exec", "-i", "demo", "--", "sleep", "1000")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	// What the pipe does not hold has been read, and is on its way.
	if _, err := in.Write(make([]byte, 340_000)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

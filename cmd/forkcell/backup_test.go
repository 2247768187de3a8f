package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// TestBackup copies a home beside a daemon that carries out runs and has a live cell,
// as the operators' page says. Each copy is a whole home.
func TestBackup(t *testing.T) {
	t.Parallel()
	need(t, "/usr/bin/flock", "/usr/bin/unshare")
	dir, err := os.MkdirTemp("", "fc") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	state, source := filepath.Join(dir, "state"), filepath.Join(dir, "src")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(source, "removed"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopLive(state) })
	program := func(home string, args ...string) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", args...)
		cmd.Args[0] = "forkcell"
		cmd.Env = append(os.Environ(), "FORKCELL_HOME="+home)
		return cmd
	}
	kill := serveUntilKilled(t, program(state, "serve"))
	defer kill()
	post(t, state, "/v1/cells", `{"name":"demo","source":{"path":"`+source+`"}}`)
	post(t, state, "/v1/cells/demo/runs", `{"command":["sh","-c","rm removed; echo secret > unreadable; chmod 0 unreadable"]}`)
	post(t, state, "/v1/cells", `{"name":"busy","source":{"empty":true}}`)
	post(t, state, "/v1/cells/busy/start", `{}`)
	post(t, state, "/v1/cells/busy/exec", `{"command":["sh","-c","while :; do date > now; done >/dev/null 2>&1 &"]}`)
	runsMeanwhile(t, state, func() {
		for i := range 3 {
			backup := filepath.Join(dir, fmt.Sprint("backup", i))
			args := []string{"flock", state + "/locks/home", "cp", "-a", state, backup}
			if os.Geteuid() != 0 {
				args = append([]string{"unshare", "--map-root-user"}, args...)
			}
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	})
	// While its first process runs on this machine, a live cell is not finished in a
	// copy either.
	post(t, state, "/v1/cells/busy/stop", `{"grace":"0s"}`)
	for i := range 3 {
		backup := filepath.Join(dir, fmt.Sprint("backup", i))
		for _, args := range [][]string{
			{"recover"},
			{"run", "busy", "--quiet", "--", "test", "-e", "now"}, // the live cell's last state
			{"run", "demo", "--quiet", "--", "sh", "-c", "test ! -e removed && test -e unreadable && test ! -r unreadable"},
			{"receipt", "verify", "--all"},
			{"verify", "demo", "--all"},
		} {
			if out, errs, err := finish(t, program(backup, args...)); err != nil {
				t.Errorf("backup %d: %q: %v\n%s%s", i, args, err, out, errs)
			}
		}
	}
}

// runsMeanwhile sends runs to the daemon until do returns.
func runsMeanwhile(t *testing.T, state string, do func()) {
	t.Helper()
	var ended sync.WaitGroup
	stop := make(chan struct{})
	for i := range 2 {
		cell := fmt.Sprint("cell", i)
		post(t, state, "/v1/cells", `{"name":"`+cell+`","source":{"empty":true}}`)
		ended.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					post(t, state, "/v1/cells/"+cell+"/runs", `{"command":["sh","-c","date >> log"]}`)
				}
			}
		})
	}
	do()
	close(stop)
	ended.Wait()
}

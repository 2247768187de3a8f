package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"golang.org/x/sys/unix"
)

// must runs the program and wants it to succeed.
func (l *lab) must(args ...string) string {
	l.Helper()
	code, out, errs := l.forkcell(args...)
	if code != 0 {
		l.Fatalf("%q: exit %d: %s", args, code, errs)
	}
	return out
}

// start makes the lab's cell live.
func (l *lab) start(flags ...string) (res api.StartResult) {
	l.Helper()
	if !l.made {
		l.must("init", "box", "--from", "work")
		l.made = true
		l.Cleanup(func() { stopLive(filepath.Join(l.dir, "state")) })
	}
	l.ok(json.Unmarshal([]byte(l.must(append([]string{"start", "box", "--json"}, flags...)...)), &res))
	return res
}

// kill kills a process with SIGKILL and waits until it is gone.
func (l *lab) kill(pid int) {
	l.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	l.ok(err)
	defer unix.Close(fd)
	l.ok(unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0))
	gone := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n := 0
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		n, err = unix.Poll(gone, int(time.Minute.Milliseconds()))
	}
	l.ok(err)
	if n != 1 {
		l.Fatalf("process %d lives on after SIGKILL", pid)
	}
}

// outcomeOf returns the outcome in the receipt of a run, or "".
func (l *lab) outcomeOf(run string) string {
	l.Helper()
	var doc struct {
		Receipts []struct {
			Run     string `json:"run_id"`
			Outcome string `json:"outcome"`
		} `json:"receipts"`
	}
	l.ok(json.Unmarshal([]byte(l.must("receipt", "list", "--json")), &doc))
	for _, r := range doc.Receipts {
		if r.Run == run {
			return r.Outcome
		}
	}
	return ""
}

// nothingLeft checks what must hold when no cell is live and no run unfinished.
func (l *lab) nothingLeft() {
	l.Helper()
	for _, dir := range []string{"pending", "sockets"} {
		left, err := os.ReadDir(filepath.Join(l.dir, "state", dir))
		if err != nil || len(left) > 0 {
			l.Errorf("%s holds %v, %v", dir, left, err)
		}
	}
	l.must("receipt", "verify", "--all")
}

// TestLiveDeadIsSettled: after a supervisor was killed, the first command that
// changes the cell finishes its run. Reading commands do not. Commands that
// need a live cell say so in one line.
func TestLiveDeadIsSettled(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const gone = 4
	copied := filepath.Join(l.dir, "copied")
	for _, c := range []struct {
		name string
		args []string
		code int
		out  string
	}{
		{"exec", []string{"exec", "box", "--", "cat", "file"}, gone, ""},
		{"shell", []string{"shell", "box"}, gone, ""},
		{"ps", []string{"ps", "box"}, gone, ""},
		{"stop", []string{"stop", "box"}, gone, ""},
		{"cp in", []string{"cp", "ca.pem", "box:ca.pem"}, gone, ""},
		{"cp out", []string{"cp", "box:file", copied}, 0, ""},
		{"logs", []string{"logs", "box"}, 0, ""},
		{"logs that follow", []string{"logs", "-f", "box"}, 0, ""},
		{"status", []string{"status", "box", "--json"}, 0, `"state":"interrupted (unfinished)"`},
		{"run", []string{"run", "--quiet", "box", "--", "cat", "file"}, 0, "by run"},
		{"start", []string{"start", "box"}, 0, "box"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := *l
			l.T = t
			res := l.start()
			l.must("exec", "box", "--", "sh", "-c", "echo by "+c.name+" > file")
			l.kill(res.PID)
			code, out, errs := l.forkcell(c.args...)
			if code != c.code || !strings.Contains(out, c.out) {
				t.Errorf("exit %d, want %d: %s%s", code, c.code, out, errs)
			}
			next := "`forkcell start box`"
			if c.name == "stop" {
				next = "there is nothing to stop"
			}
			if c.code == gone && (strings.Count(errs, "\n") != 1 || !strings.Contains(errs, res.RunID) || !strings.Contains(errs, next)) {
				t.Errorf("it says %q", errs)
			}
			if reads := []string{"ps", "logs", "logs that follow", "status"}; slices.Contains(reads, c.name) {
				if got := l.outcomeOf(res.RunID); got != "" {
					t.Errorf("a reading command finished the run as %q", got)
				}
				l.must("checkpoint", "box")
			}
			// The list of receipts finishes nothing itself.
			if got := l.outcomeOf(res.RunID); got != "interrupted" {
				t.Errorf("the run's outcome is %q", got)
			}
			if c.name == "start" {
				l.must("stop", "box")
			}
			l.nothingLeft()
			if text, err := os.ReadFile(copied); c.name == "cp out" && string(text) != "by cp out\n" {
				t.Errorf("what was copied is %q, %v", text, err)
			}
		})
		l.made = true
	}
}

// TestLiveDiskLimit: a live cell that adds more than its limit is ended as a run
// is.
func TestLiveDiskLimit(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ok(os.WriteFile(filepath.Join(l.dir, "policy.yaml"), []byte("version: 1\nlimits: { disk: 2MiB }\n"), 0o644))
	l.must("init", "box", "--from", "work")
	if code, _, errs := l.forkcell("start", "box", "--policy", "policy.yaml"); code != 4 || !strings.Contains(errs, "limit disk") {
		t.Fatalf("without leave to degrade: exit %d: %s", code, errs)
	}
	l.made = true
	res := l.start("--policy", "policy.yaml", "--allow-degraded")
	t.Cleanup(func() { stopLive(filepath.Join(l.dir, "state")) })
	if !strings.Contains(strings.Join(res.Degraded, " "), "limit disk") {
		t.Errorf("degraded: %q", res.Degraded)
	}
	l.must("exec", "box", "--", "sh", "-c", "head -c 1000000 /dev/zero > little")
	code, _, errs := l.forkcell("exec", "box", "--", "sh", "-c", "trap '' TERM; head -c 9000000 /dev/zero > much; while :; do sleep 611; done")
	if code == 0 {
		t.Errorf("the command that took too much was not ended: %s", errs)
	}
	// The supervisor has its lock until the run is concluded.
	l.must("run", "--wait=1m", "--quiet", "box", "--", "test", "-s", "much")
	if got := l.outcomeOf(res.RunID); got != "killed" {
		t.Errorf("the outcome is %q", got)
	}
	if out := l.must("events", "query", "--json", "--run", res.RunID, "--class", "detection_finding"); !strings.Contains(out, "limit_disk") {
		t.Errorf("no finding in %s", out)
	}
	l.nothingLeft()
}

// TestRecoverWhileACellIsUsed: the database is not rebuilt while another
// process uses the old one.
func TestRecoverWhileACellIsUsed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	res := l.start()
	refuses := func(what string) {
		t.Helper()
		code, out, errs := l.forkcell("recover")
		if code != 4 || !strings.Contains(errs, "cell box is "+what) || strings.Count(errs, "\n") != 1 {
			t.Fatalf("exit %d: %s%s", code, out, errs)
		}
		if aside, _ := filepath.Glob(filepath.Join(l.dir, "state", "forkcell.db.before-*")); len(aside) > 0 {
			t.Fatalf("it was begun: %v", aside)
		}
	}
	refuses("live")
	l.must("exec", "box", "--", "sh", "-c", "echo kept > file")
	l.must("stop", "box")
	if got := l.outcomeOf(res.RunID); got != "succeeded" {
		t.Errorf("the outcome is %q", got)
	}

	// A run that is not live holds no lock of the home either.
	cmd := l.command("run", "-i", "--quiet", "box", "--", "sh", "-c", "echo ready; cat file; read line")
	cmd.WaitDelay = streamLimit
	typing, err := cmd.StdinPipe()
	l.ok(err)
	said, err := cmd.StdoutPipe()
	l.ok(err)
	l.ok(cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(said)
	for _, want := range []string{"ready", "kept"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q, want %q: %v", lines.Text(), want, lines.Err())
		}
	}
	refuses("busy")
	_, err = typing.Write([]byte("on\n"))
	l.ok(err)
	l.ok(cmd.Wait())

	// Nor is it when the database is lost: the lock shows it.
	res = l.start()
	l.must("exec", "box", "--", "sh", "-c", "echo lost > file")
	for _, name := range []string{"forkcell.db", "forkcell.db-wal", "forkcell.db-shm"} {
		_ = os.Remove(filepath.Join(l.dir, "state", name))
	}
	refuses("live")
	l.kill(res.PID)
	// The kernel's own directory in it is closed even to its owner.
	t.Cleanup(func() { openAll(filepath.Join(l.dir, "state", "unfinished")) })
	if out := l.must("recover"); !strings.Contains(out, "unfinished") {
		t.Errorf("what the cell had written is not named: %s", out)
	}
	if out := l.must("run", "--quiet", "box", "--", "cat", "file"); out != "kept\n" {
		t.Errorf("the cell holds %q", out)
	}
	l.must("receipt", "verify", "--all")
}

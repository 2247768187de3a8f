package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal/terminaltest"
)

// seatLimit is how long a person waits.
const seatLimit = 2 * time.Minute

// seat is the program with a terminal that a person uses.
type seat struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	dir    string
	screen
}

// screen has the output of a terminal.
type screen struct {
	mu      sync.Mutex
	seen    bytes.Buffer
	changed chan struct{} // something new is on the screen
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return s.seen.Write(b)
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}

// clear empties the screen.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.Reset()
}

// sit starts a shell command as the leader of a session on a new terminal, in a
// directory with the sources of a cell called demo.
func sit(t *testing.T, script string) *seat {
	t.Helper()
	s := &seat{t: t, dir: t.TempDir(), screen: screen{changed: make(chan struct{}, 1)}}
	for _, dir := range []string{"home", "ws"} {
		if err := os.Mkdir(filepath.Join(s.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "ws", "file"), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	init := s.command("forkcell init demo --from ws")
	if out, err := init.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	master, slave := openTerminal(t)
	s.master, s.cmd = master, s.command(script)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	go func() { _, _ = io.Copy(s, terminal.Output(master)) }()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = master.Close()
	})
	return s
}

// command runs a script in which forkcell is this test binary.
func (s *seat) command(script string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "FORKCELL_HOME="+filepath.Join(s.dir, "state"), "HOME="+filepath.Join(s.dir, "home"), "TERM=xterm", "PAGER=cat")
	return cmd
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, slave, err := terminaltest.Open()
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// await waits until the screen shows a text.
func (s *seat) await(text string) {
	s.t.Helper()
	s.awaitTimes(text, 1)
}

// awaitTimes waits until the screen has shown a text so many times.
func (s *seat) awaitTimes(text string, times int) {
	s.t.Helper()
	limit := time.After(seatLimit)
	for strings.Count(s.text(), text) < times {
		select {
		case <-s.changed:
		case <-limit:
			s.t.Fatalf("the screen never shows %q:\n%s", text, s.text())
		}
	}
}

func (s *seat) key(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.master, keys); err != nil {
		s.t.Fatal(err)
	}
}

// end waits until the command has ended.
func (s *seat) end() {
	s.t.Helper()
	ended := make(chan struct{})
	go func() {
		_ = s.cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(seatLimit):
		s.t.Fatalf("the command does not end:\n%s", s.text())
	}
}

// result waits for the end, and reads the result document of the run.
func (s *seat) result() (code int, outcome, decision string) {
	s.t.Helper()
	s.end()
	data, err := os.ReadFile(filepath.Join(s.dir, "result"))
	if err != nil {
		s.t.Fatalf("%v:\n%s", err, s.text())
	}
	var doc struct {
		Outcome  string `json:"outcome"`
		Decision string `json:"decision"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		s.t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode(), doc.Outcome, doc.Decision
}

// TestTerminalByDefault checks that a command gets a terminal and stdin when the
// caller sits at one, and only then.
func TestTerminalByDefault(t *testing.T) {
	t.Parallel()
	ask := `-- sh -c 'test -t 0 && test -t 1 && test -t 2 && echo terminal && read line && echo "got <$line>" || echo none'`
	for name, k := range map[string]struct{ script, want string }{
		"run":        {"exec forkcell run --quiet demo " + ask, "got <typed>"},
		"exec":       {"forkcell start demo >/dev/null; forkcell exec demo " + ask + "; forkcell stop demo --timeout 0", "got <typed>"},
		"off":        {"exec forkcell run --quiet -T demo " + ask, "none"},
		"json":       {"exec forkcell run --json demo " + ask, "none"},
		"piped":      {"forkcell run --quiet demo " + ask + " | cat", "none"},
		"background": {"set -m; forkcell run --quiet demo " + ask + " & wait", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sit(t, k.script)
			if strings.HasPrefix(k.want, "got") {
				s.await("terminal")
				s.key("typed\r")
			}
			s.await(k.want)
			s.end()
		})
	}
}

// TestCtrlCOnTerminal checks that a key ends the run as a signal would.
func TestCtrlCOnTerminal(t *testing.T) {
	t.Parallel()
	s := sit(t, "exec forkcell run --result result demo -- sh -c 'echo ready; exec sleep 600'")
	s.await("ready")
	s.key("\x03")
	if code, outcome, _ := s.result(); code != 130 || outcome != "interrupted" {
		t.Errorf("exit %d, %s:\n%s", code, outcome, s.text())
	}
}

// TestTerminalVanishes checks that a run ends with its terminal, also when only
// another process gets the signal, and also when the command ignores it.
func TestTerminalVanishes(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"leader":   "exec forkcell run --result result demo -- sh -c 'echo ready; exec sleep 600'",
		"untold":   "trap '' HUP; forkcell run --result result demo -- sh -c 'echo ready; exec sleep 600'",
		"stubborn": `exec forkcell run --result result demo -- sh -c 'trap "" HUP; echo ready; sleep 600'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sit(t, script)
			s.await("ready")
			_ = s.master.Close()
			if _, outcome, _ := s.result(); outcome != "interrupted" {
				t.Errorf("outcome %s:\n%s", outcome, s.text())
			}
		})
	}
}

// TestPagesVanish: pages that are served until Ctrl-C end with their terminal, too.
func TestPagesVanish(t *testing.T) {
	t.Parallel()
	s := sit(t, "exec forkcell ui --no-open")
	s.await("serving until Ctrl-C")
	_ = s.master.Close()
	s.end()
}

// TestTry checks the question that follows a run on a terminal, each answer, and
// that a key typed for it is not lost to the run before.
func TestTry(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]struct {
		answers []string // typed at each question
		want    string   // what the source holds then
		screen  string
	}{
		"accept":  {[]string{"a"}, "two\n", "applied: 1 change"},
		"discard": {[]string{"discard"}, "one\n", "decision:"},
		"keep":    {[]string{"k"}, "one\n", "kept; decide later"},
		"diff":    {[]string{"d", "a"}, "two\n", "+two"},
		"unknown": {[]string{"q", "accept"}, "two\n", "forkcell: q is not an answer; the answers are a or accept, x or discard, k or keep, d or diff, s or shell"},
		"enter":   {[]string{""}, "one\n", "kept; decide later with forkcell accept --apply or forkcell restore"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sit(t, "cd ws && exec forkcell try -- sh -c 'echo running; read x && echo two > file && exit 3'")
			s.await("running")
			s.key("go\r")
			for i, answer := range k.answers {
				s.awaitTimes("shell [s]? ", i+1)
				s.key(answer + "\r")
			}
			s.end()
			if code := s.cmd.ProcessState.ExitCode(); code != 3 {
				t.Errorf("exit %d, not that of the command", code)
			}
			s.await(k.screen)
			if got, err := os.ReadFile(filepath.Join(s.dir, "ws", "file")); err != nil || string(got) != k.want {
				t.Errorf("the source holds %q, %v:\n%s", got, err, s.text())
			}
		})
	}
}

// TestTryEarlier: a run that is still undecided is shown before the next one, and is
// accepted only by the answer that says so.
func TestTryEarlier(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string][]string{
		"1": {"file", "good"},
		"a": {"evil", "file", "good"},
		"x": {"file"},
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			s := sit(t, "trap : INT; forkcell try --from ws -- sh -c 'touch evil ~/.evil'; cd ws; forkcell try -- touch good")
			s.awaitTimes("shell [s]? ", 1)
			s.key("\x03")
			s.await("earlier and undecided: run_")
			s.await("(sh -c 'touch evil ~/.evil')")
			s.await(" evil | new file")
			s.await("left out by [1], as it is outside the workspace: home: 1 file changed")
			s.await(" good | new file")
			s.await("accept and apply this run only [1], this and the earlier [a]")
			s.awaitTimes("shell [s]? ", 2)
			s.key(answer + "\r")
			s.end()
			var got []string
			entries, err := os.ReadDir(filepath.Join(s.dir, "ws"))
			for _, e := range entries {
				got = append(got, e.Name())
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("the source has %v, %v:\n%s", got, err, s.text())
			}
		})
	}
}

// TestTryMeanwhile: a run that another terminal makes while the question waits is not
// accepted or taken back by its answer, neither here nor through a daemon. Once it was shown,
// it is.
func TestTryMeanwhile(t *testing.T) {
	t.Parallel()
	for name, daemon := range map[string]string{"here": "", "daemon": "--url unix:$FORKCELL_HOME/api.sock"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sit(t, "read go; exec forkcell "+daemon+" try --from ws -- touch good")
			if daemon != "" {
				serve := s.command("exec forkcell serve")
				t.Cleanup(serveUntilKilled(t, serve))
			}
			s.key("go\r")
			s.awaitTimes("shell [s]? ", 1)
			if out, err := s.command("forkcell run --quiet demo -- touch evil").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			s.key("x\r")
			s.await("this would also take back run run_")
			s.awaitTimes("shell [s]? ", 2)
			s.key("a\r")
			s.end()
			entries, err := os.ReadDir(filepath.Join(s.dir, "ws"))
			var got []string
			for _, e := range entries {
				got = append(got, e.Name())
			}
			if err != nil || !slices.Equal(got, []string{"file", "good"}) {
				t.Errorf("the source has %v, %v:\n%s", got, err, s.text())
			}
		})
	}
	s := sit(t, "exec forkcell try --from ws -- touch good")
	s.awaitTimes("shell [s]? ", 1)
	if out, err := s.command("forkcell run --quiet demo -- touch meanwhile").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.key("d\r")
	s.await("b/meanwhile")
	s.awaitTimes("shell [s]? ", 2)
	s.key("x\r")
	s.end()
	if out, err := s.command("forkcell status demo --json").CombinedOutput(); err != nil || !strings.Contains(string(out), `"pending_runs":[]`) {
		t.Errorf("something waits: %v %s", err, out)
	}
}

// TestTryInterrupted: a signal at the question keeps the run, says how to decide later,
// and exits as every command does. The end of the input is no answer either.
func TestTryInterrupted(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]struct {
		end  func(s *seat)
		code string
		text string
	}{
		"ctrl-c": {func(s *seat) { s.key("\x03") }, "130", "forkcell: interrupted; the work is kept; decide later with forkcell accept demo --apply or forkcell restore demo"},
		"term":   {func(s *seat) { s.signal(syscall.SIGTERM) }, "143", "forkcell: interrupted; the work is kept; decide later with forkcell accept demo --apply or forkcell restore demo"},
		"hangup": {func(s *seat) { s.signal(syscall.SIGHUP) }, "129", "forkcell: interrupted; the work is kept; decide later with forkcell accept demo --apply or forkcell restore demo"},
		"ctrl-d": {func(s *seat) { s.key("\x04") }, "0", "forkcell: kept; decide later with forkcell accept demo --apply or forkcell restore demo"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sit(t, `trap : INT; sh -c 'echo $$ > pid; exec forkcell try --from ws -- sh -c "echo two > file"'; echo "exit $?"; forkcell accept demo --apply`)
			s.awaitTimes("shell [s]? ", 1)
			k.end(s)
			s.await(k.text)
			s.await("exit " + k.code)
			s.await("applied: 1 change")
			s.end()
		})
	}
}

// signal sends a signal to the process that has written its id to the file pid.
func (s *seat) signal(sig syscall.Signal) {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "pid"))
	if err != nil {
		s.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err == nil {
		err = syscall.Kill(pid, sig)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestTryShell looks around in the cell before it decides.
func TestTryShell(t *testing.T) {
	t.Parallel()
	s := sit(t, "exec forkcell try --from ws -- sh -c 'echo two > file'")
	s.awaitTimes("shell [s]? ", 1)
	s.key("s\r")
	s.await("$ ")
	s.key("echo three >> file; exit\r")
	s.awaitTimes("shell [s]? ", 2)
	s.key("a\r")
	s.end()
	if got, err := os.ReadFile(filepath.Join(s.dir, "ws", "file")); err != nil || string(got) != "two\nthree\n" {
		t.Errorf("the source holds %q, %v:\n%s", got, err, s.text())
	}
}

// TestShellLeft leaves a shell in a live cell. The next one says that the first is
// still there, and how to come back to it.
func TestShellLeft(t *testing.T) {
	t.Parallel()
	s := sit(t, "forkcell start demo; forkcell shell demo; forkcell shell demo; forkcell stop demo")
	t.Cleanup(func() { _ = s.command("forkcell rm demo --force").Run() })
	s.await("$ ")
	s.key("\x10\x11")
	s.await("` comes back\r\n")
	s.await("a new shell; `forkcell shell demo --attach exec_")
	s.awaitTimes("$ ", 2)
	s.key("exit\r")
	s.await("cell demo stopped")
	s.end()
	if n := strings.Count(s.text(), "a new shell"); n != 1 {
		t.Errorf("said %d times:\n%s", n, s.text())
	}
}

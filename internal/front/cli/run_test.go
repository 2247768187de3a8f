package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

func ended() *api.RunResult {
	return &api.RunResult{Cell: "demo", RunID: "run_1", ReceiptID: "rcpt_1", Outcome: "succeeded", Decision: "pending"}
}

func TestRunRequest(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("# comment\n\nA=1\n  B= two words \nC=a=b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]api.RunRequest{
		"run demo -- true": {Cell: "demo", Args: []string{"true"}},
		"run --checkpoint-before --restore-on-fail demo -- sh -lc x": {
			Cell: "demo", Args: []string{"sh", "-lc", "x"}, CheckpointBefore: true, RestoreOnFail: true,
		},
		"run demo --checkpoint-name n --accept-on-success -- a": {
			Cell: "demo", Args: []string{"a"}, CheckpointBefore: true, CheckpointName: "n", AcceptOnSuccess: true,
		},
		"run --timeout 90s demo --wait --workdir sub --ro /a --ro /b,c -- a": {Cell: "demo", Args: []string{"a"}, RunOptions: api.RunOptions{Timeout: 90 * time.Second, Wait: -1, Workdir: "sub", ReadOnly: []string{"/a", "/b,c"}}},
		"run --wait=2m demo -- a":                                       {Cell: "demo", Args: []string{"a"}, RunOptions: api.RunOptions{Wait: 2 * time.Minute}},
		"run --env X=1,2 demo --env-file " + file + " --env Y= -- a":    {Cell: "demo", Args: []string{"a"}, RunOptions: api.RunOptions{Env: []string{"A=1", "B= two words ", "C=a=b", "X=1,2", "Y="}}},
		"run --exit-with-command --sync-logs --logs-since 5m demo -- a": {Cell: "demo", Args: []string{"a"}},
		"run -t demo -- a": {
			Cell: "demo", Args: []string{"a"}, TTY: true, Size: api.WindowSize{Rows: 24, Cols: 80}, Term: os.Getenv("TERM"),
		},
	} {
		want.Network.CredentialsFile = credentialsFile()
		want.Grants.ConfigFile = api.Text(configFile("config.yaml"))
		f := &fakeEngine{run: ended()}
		code, _, stderr := call(t, f, strings.Fields(line)...)
		if code != 0 {
			t.Errorf("%s: exit %d: %s", line, code, stderr)
			continue
		}
		if diff := cmp.Diff(want, f.got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
		if f.stdio.In != nil {
			t.Errorf("%s: passes stdin", line)
		}
	}
	f := &fakeEngine{run: ended()}
	if call(t, f, "run", "-it", "demo", "--", "a"); f.stdio.In == nil || !f.got.(api.RunRequest).TTY {
		t.Error("-it: no stdin or no terminal")
	}
}

// TestRuntimes: the engine decides whether a runtime works, and an unknown one is
// wrong usage.
func TestRuntimes(t *testing.T) {
	t.Parallel()
	f := &fakeEngine{run: ended()}
	if call(t, f, "run", "demo", "--runtime", "gvisor", "--", "a"); f.got.(api.RunRequest).Runtime != "gvisor" {
		t.Errorf("%+v", f.got)
	}
	for _, line := range []string{"init a --from d --runtime docker", "run a --runtime docker -- b", "start a --runtime docker"} {
		if code, _, stderr := call(t, &fakeEngine{}, strings.Fields(line)...); code != 2 {
			t.Errorf("%s: exit %d, %q", line, code, stderr)
		}
	}
}

func TestRunExitAndSummary(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(*api.RunResult)
		code   int
		line   string
	}{
		{func(*api.RunResult) {}, 0, "succeeded, pending, receipt rcpt_1"},
		{func(r *api.RunResult) {
			r.Outcome, r.ExitCode, r.Decision, r.CheckpointBefore, r.ChangedFiles = "failed", 7, "restored", "chk_1", 2
		}, 7, "failed (exit 7), restored to chk_1, 2 changed, receipt rcpt_1"},
		{func(r *api.RunResult) { r.Outcome, r.ExitCode, r.Signal = "timed_out", 124, 9 }, 124, "timed_out (signal 9), pending, receipt rcpt_1"},
		{func(r *api.RunResult) { r.Outcome, r.ExitCode, r.Signal = "killed", 143, 15 }, 143, "killed (signal 15), pending, receipt rcpt_1"},
		{func(r *api.RunResult) { r.Outcome = "interrupted" }, 130, "interrupted, pending, receipt rcpt_1"},
		{
			func(r *api.RunResult) {
				r.Outcome, r.ExitCode, r.Error = "failed", 127, "command not found in the cell: x"
			},
			127, "failed (exit 127): command not found in the cell: x, pending, receipt rcpt_1",
		},
		{func(r *api.RunResult) { r.Outcome, r.ExitCode = "error", 125 }, 125, "error, pending, receipt rcpt_1"},
		{
			func(r *api.RunResult) { r.SplitLinks, r.Degraded = []string{"a"}, []string{"limits"} },
			0, "succeeded, pending, 1 hard link split, degraded: limits, receipt rcpt_1",
		},
	} {
		res := ended()
		c.change(res)
		code, stdout, stderr := call(t, &fakeEngine{run: res, output: "out"}, "run", "demo", "--", "x")
		if code != c.code || stderr != "forkcell: "+c.line+"\n" || stdout != "out" {
			t.Errorf("exit %d, want %d; stdout %q\n got %s\nwant %s", code, c.code, stdout, stderr, c.line)
		}
		_, _, stderr = call(t, &fakeEngine{run: res}, "run", "--quiet", "demo", "--", "x")
		if stderr != "" {
			t.Errorf("quiet: %q", stderr)
		}
	}
}

func TestRunFailureOfItsOwn(t *testing.T) {
	t.Parallel()
	notFound := &driver.StartError{Step: "exec", Err: unix.ENOENT, Cause: driver.CauseNotFound}
	code, _, _ := call(t, &fakeEngine{err: &api.Error{Message: "m", Err: notFound}, none: true}, "run", "demo", "--", "x")
	if code != 127 {
		t.Errorf("not found: exit %d", code)
	}
	res := ended()
	res.Outcome = "error"
	f := &fakeEngine{run: res, err: &api.Error{Kind: api.Failed, Code: api.CodeSeal, Message: "seal: disk full", Hint: "make room"}}
	code, _, stderr := call(t, f, "run", "demo", "--", "x")
	if code != 125 || stderr != "forkcell: seal: disk full; make room\n  receipt rcpt_1\n" {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

func TestRunResultDocument(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "result.json")
	decode := func(text string) map[string]any {
		t.Helper()
		var doc map[string]any
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		return doc
	}
	code, doc, output := call(t, &fakeEngine{run: ended(), output: "output"}, "run", "--json", "--quiet", "demo", "--", "x")
	if code != 0 || output != "output" || decode(doc)["run_id"] != "run_1" {
		t.Errorf("exit %d, %q, %q", code, doc, output)
	}
	for _, list := range []string{"split_links", "degraded", "notes"} {
		if _, ok := decode(doc)[list].([]any); !ok {
			t.Errorf("%s is no list in %s", list, doc)
		}
	}
	if _, ok := decode(doc)["events"].(map[string]any); !ok {
		t.Errorf("events is no object in %s", doc)
	}

	call(t, &fakeEngine{run: ended()}, "run", "--result", file, "demo", "--", "x")
	if got := decode(read(t, file)); got["outcome"] != "succeeded" || got["error"] != nil {
		t.Errorf("%v", got)
	}
	refused := &fakeEngine{err: &api.Error{Kind: api.Refused, Code: api.CodeStart, Message: "no user namespaces", Hint: "forkcell setup"}}
	for _, f := range []*fakeEngine{refused, {openErr: refused.err}} {
		code, _, _ = call(t, f, "run", "--result", file, "demo", "--", "x")
		got := decode(read(t, file))
		body, _ := got["error"].(map[string]any)
		if code != 4 || got["outcome"] != "error" || got["cell"] != "demo" || body["code"] != "start" || body["hint"] != "forkcell setup" {
			t.Errorf("exit %d, %v", code, got)
		}
	}
	code, _, stderr := call(t, &fakeEngine{run: ended()}, "run", "--result", "/dev/full", "demo", "--", "x")
	if code != 125 || !strings.Contains(stderr, "write the result document") {
		t.Errorf("exit %d, %q", code, stderr)
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("files left: %v", names)
	}
}

func TestRunResultNeverReplacesADevice(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "null")
	if err := os.Symlink("/dev/null", link); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := call(t, &fakeEngine{run: ended()}, "run", "--result", link, "demo", "--", "x")
	if target, err := os.Readlink(link); code != 0 || err != nil || target != "/dev/null" {
		t.Errorf("exit %d, %q, %q %v", code, stderr, target, err)
	}
}

// TestOldLines rewrites lines of ForkCell 0.1, and no others.
func TestOldLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, line, backends string }{
		{"", "", ""},
		{"--json ls", "--json ls", ""},
		{"overlay init demo --from d", "init --backend overlay demo --from d", ""},
		{"--home overlay native run-layer demo -- overlay --backend x", "--home overlay run demo -- overlay --backend x", "overlay clone"},
		{"--json volume --quiet delete a b", "--json --quiet rm a b", "delta"},
		{"run --sync-logs --logs-since 5m -i --logs-since=5m demo --exit-with-command -- sh", "run -i demo -- sh", ""},
		{"run --backend=auto demo -- sh", "run demo -- sh", ""},
		{"run demo --backend layer-clone -- sh", "run demo -- sh", "clone"},
		{"run demo sh --sync-logs", "run demo sh --sync-logs", ""}, // an error, about what was written
		{"init overlay --from d --backend clone", "init overlay --from d --backend clone", ""},
		{"try --sync-logs -- sh", "try --sync-logs -- sh", ""},
	} {
		line, backends, err := rewriteOld(strings.Fields(c.old))
		if err != nil || strings.Join(line, " ") != c.line || strings.Join(backends, " ") != c.backends {
			t.Errorf("%s: %q, backends %v, %v", c.old, line, backends, err)
		}
	}
}

func TestAliasesCheckTheBackend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line, backend string
		code          int
	}{
		{"overlay run demo -- x", "overlay", 0},
		{"overlay run demo -- x", "delta", 4},
		{"native run demo -- x", "overlay", 0},
		{"native run-layer demo -- x", "clone", 0},
		{"native run-layer demo -- x", "delta", 4},
		{"volume run demo -- x", "delta", 0},
		{"volume status demo", "overlay", 4},
		{"overlay gc", "", 0},
		{"overlay gc demo", "clone", 4},
		{"overlay doctor demo", "overlay", 0},
		{"native delete demo", "clone", 0},
		{"volume restore demo", "delta", 0},
		{"overlay fork demo --name b", "overlay", 0},
		{"overlay verify demo", "clone", 4},
		{"run --backend native-overlay demo -- x", "overlay", 0},
		{"run --backend local-overlay demo -- x", "clone", 4},
		{"run --backend layer-clone demo -- x", "clone", 0},
		{"run --backend volume-delta demo -- x", "overlay", 4},
		{"run --backend auto demo -- x", "delta", 0},
	} {
		f := &fakeEngine{run: ended(), backend: c.backend, verify: &api.VerifyResult{}}
		if code, _, stderr := call(t, f, strings.Fields(c.line)...); code != c.code {
			t.Errorf("%s on %s: exit %d, want %d; %s", c.line, c.backend, code, c.code, stderr)
		}
	}
	for family, want := range map[string]string{"overlay": "overlay", "native": "overlay", "volume": "delta"} {
		f := &fakeEngine{}
		call(t, f, family, "init", "a", "--from", "d")
		if got := f.got.(api.InitRequest).Backend; got != want {
			t.Errorf("%s init: backend %s", family, got)
		}
	}
}

func TestSecondSignalKills(t *testing.T) {
	t.Parallel()
	killed := 0
	f := &forwarder{to: make(chan os.Signal, 1), kill: func() { killed++ }}
	f.pass(unix.SIGTERM)
	if killed != 0 || f.signal() != int(unix.SIGTERM) || <-f.to != unix.SIGTERM {
		t.Error("the first signal is not only passed on")
	}
	f.pass(unix.SIGINT)
	f.pass(unix.SIGINT)
	if killed != 2 || f.signal() != int(unix.SIGTERM) {
		t.Errorf("killed %d times, first signal %d", killed, f.signal())
	}
}

// TestLeavingSignals: a client that is killed does not take the command with it.
func TestLeavingSignals(t *testing.T) {
	t.Parallel()
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT} {
		left := false
		f := (&forwarder{to: make(chan os.Signal, 1), kill: func() { left = true }}).leaveOnEnd(unix.SIGINT, unix.SIGQUIT)
		if !f.pass(sig) || !left || len(f.to) != 0 || f.signal() != int(sig) {
			t.Errorf("%v: left %t, passed on %d, signal %d", sig, left, len(f.to), f.signal())
		}
	}
	f := (&forwarder{to: make(chan os.Signal, 1), kill: func() { t.Error("left") }}).leaveOnEnd()
	if !f.pass(unix.SIGINT) || <-f.to != unix.SIGINT {
		t.Error("Ctrl-C is not passed on to a command that was started here")
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Outside a run a signal is not the command's: there is none.
func TestSignalsOutsideARun(t *testing.T) {
	t.Parallel()
	f := &forwarder{to: make(chan os.Signal, 1), ready: make(chan struct{})}
	close(f.ready)
	if f.pass(unix.SIGTERM) {
		t.Error("passed on before the run")
	}
	f.begin(func() {})
	if !f.pass(unix.SIGTERM) || <-f.to != unix.SIGTERM {
		t.Error("not passed on in the run")
	}
	f.end()
	if f.pass(unix.SIGTERM) || f.signal() != int(unix.SIGTERM) {
		t.Error("passed on after the run")
	}
}

// TestPinsOfPresets: a flag wins over what a preset pins.
func TestPinsOfPresets(t *testing.T) {
	t.Parallel()
	pins := []string{"a.example:443=10.0.0.1", "a.example:443=10.0.0.2", "b.example:80=127.0.0.1"}
	for flag, want := range map[string]int{
		"": 3, "a.example=1.2.3.4": 2, "a.example:443=1.2.3.4": 2, "a.example:80=1.2.3.4": 4, "b.example:80=[::1]:8": 3, "c.example=10.0.0.1": 4,
	} {
		flags := []string{}
		if flag != "" {
			flags = append(flags, flag)
		}
		if got := engine.WithPins(flags, pins); len(got) != want || flag != "" && got[0] != flag {
			t.Errorf("%q: %v", flag, got)
		}
	}
}

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

func TestEventsQueryFlags(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for line, want := range map[string]api.EventQuery{
		"":                                       {},
		"--cell demo --run run_1":                {Cell: "demo", Run: "run_1"},
		"--class 2004 --action denied":           {Class: int(event.DetectionFinding), Action: string(event.ActionDenied)},
		"--class http_activity":                  {Class: int(event.HTTPActivity)},
		"--since 2026-01-02T03:04:05Z --limit 3": {Since: at, Limit: 3},

		"--since 2026-01-02T04:04:05.000001+01:00": {Since: at.Add(time.Microsecond)},
	} {
		f := &fakeEngine{}
		code, _, stderr := call(t, f, append([]string{"events", "query"}, strings.Fields(line)...)...)
		if code != 0 || f.mode != Read {
			t.Errorf("%s: exit %d: %s", line, code, stderr)
			continue
		}
		if diff := cmp.Diff(want, f.got, cmpopts.EquateApproxTime(0)); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
	f := &fakeEngine{}
	call(t, f, "events", "query", "--since", "2h")
	if ago := time.Since(f.got.(api.EventQuery).Since); ago < 2*time.Hour || ago > 3*time.Hour {
		t.Errorf("--since 2h is %v ago", ago)
	}
	for _, line := range []string{
		"--class 1", "--class HTTP", "--action Denied", "--since yesterday", "--since -2h", "--limit 0", "--limit -1", "--limit x", "extra",
	} {
		f := &fakeEngine{}
		code, _, stderr := call(t, f, append([]string{"events", "query"}, strings.Fields(line)...)...)
		if code != 2 || f.opened != 0 || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %q", line, code, stderr)
		}
	}
}

// journalOf writes events as a run does, and reads them back.
func journalOf(t *testing.T, events ...event.Event) []event.Record {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC) }
	j, err := event.Create(file, event.Meta{Cell: "demo", Run: "run_1"}, event.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := j.Seal(); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	var list []event.Record
	if err := event.Read(file, event.Filter{}, func(r event.Record) error { list = append(list, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestEventLines(t *testing.T) {
	t.Parallel()
	by := event.Subject{Verdict: event.Denied, Rule: "r", Reason: "why", Process: event.Process{PID: 3, Binary: "/bin/b"}}
	to := event.Connection{Host: "example.org", Port: 443}
	records := journalOf(t,
		event.Lifecycle(event.Subject{Message: "the run begins"}, event.RunStarted),
		event.Launch(event.Subject{}, event.Process{PID: 2, Binary: "sh", Args: []string{"sh", "-c", "a\x1b[2Jb"}}),
		event.Exit(event.Subject{}, event.Process{PID: 2}, 7),
		event.Found(by, event.Finding{ID: "x", Title: "the system call mount was denied", Detail: "it gave EPERM"}),
		event.FileAccess(by, event.FileOpen, "/etc/sha\u202edow"),
		event.Network(by, event.Refused, event.Connection{IP: "10.0.0.1", Port: 22}),
		event.HTTP(by, event.Request{Connection: to, Method: "GET", Path: "/a"}),
		event.DNS(event.Subject{}, event.Query{Name: "example.org", Type: "A"}),
		event.Config(event.Subject{}, "policy applied"),
	)
	_, stdout, stderr := call(t, &fakeEngine{events: records}, "events", "query")
	const head = "2026-01-02 03:04:05.006Z  demo  run_1  "
	const tail = ", by /bin/b, rule r, why\n"
	want := head + "allowed  the run begins\n" +
		head + `allowed  process launch pid 2: sh -c 'a\x1b[2Jb'` + "\n" +
		head + "allowed  process terminate pid 2, exit code 7\n" +
		head + "denied  finding: the system call mount was denied: it gave EPERM" + tail +
		head + `denied  file open /etc/sha\u202edow` + tail +
		head + "denied  connection refuse 10.0.0.1:22" + tail +
		head + "denied  request GET example.org:443/a" + tail +
		head + "allowed  name example.org A\n" +
		head + "allowed  configuration: policy applied\n"
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Error(diff, stderr)
	}
	_, stdout, _ = call(t, &fakeEngine{events: records}, "events", "tail", "demo", "--json")
	var raw bytes.Buffer
	for _, r := range records {
		raw.Write(append(r.Raw, '\n'))
	}
	if stdout != raw.String() {
		t.Errorf("--json is not the journal: %s", stdout)
	}
}

// An unreadable event is shown too, without harm to the terminal.
func TestEventLineOfAnything(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", "{", `{"message":"\u001b[2J"}`, `{"finding_info":7}`, "\x1b[2J"} {
		rec := event.Record{Class: event.DetectionFinding, Raw: []byte(raw), Cell: "\x1b", Run: "\u202e", Action: "denied"}
		_, stdout, _ := call(t, &fakeEngine{events: []event.Record{rec}}, "events", "query")
		if strings.Count(stdout, "\n") != 1 || strings.ContainsAny(stdout, "\x1b\u202e") {
			t.Errorf("%q: %q", raw, stdout)
		}
	}
}

func TestEventsEndQuietly(t *testing.T) {
	t.Parallel()
	f := &fakeEngine{err: errPlain}
	if code, _, stderr := call(t, f, "events", "tail"); code != 1 || stderr == "" {
		t.Errorf("exit %d, %q", code, stderr)
	}
	if diff := cmp.Diff([]any{"", 10}, f.got); diff != "" {
		t.Error(diff)
	}
}

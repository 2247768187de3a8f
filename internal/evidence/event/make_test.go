package event

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func updating() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "rewrite the golden files")
	flag.Parse()
	os.Exit(m.Run())
}

func subject(v Verdict) Subject {
	return Subject{
		Verdict: v, Rule: "github", Reason: "why", Message: "what",
		Process: Process{PID: 7, Parent: 2, Binary: "/usr/bin/curl", Args: []string{"curl", "-H", "a b"}},
	}
}

func samples() []Event {
	conn := Connection{Host: "api.example.com", IP: "192.0.2.1", Port: 443}
	used := conn
	used.Traffic = &Traffic{Sent: 5, Received: 1024, Took: 12 * time.Millisecond}
	return []Event{
		Lifecycle(Subject{Message: "run started"}, RunStarted),
		Launch(Subject{}, Process{PID: 2, Parent: 1, Binary: "/bin/sh", Args: []string{"sh", "-c", "true"}}),
		Network(subject(Denied), Refused, conn),
		HTTP(subject(Allowed), Request{Connection: used, Scheme: "https", Method: "GET", Path: "/repos", Query: "a=1", Version: "2", Status: 200, Layer: "rest"}),
		HTTP(subject(Audited), Request{Connection: conn, Scheme: "https", Method: "PURGE", Path: "/"}),
		DNS(subject(Denied), Query{Name: "evil.example", Type: "A", Rcode: 3}),
		DNS(subject(Allowed), Query{Name: "api.example.com", Type: "AAAA", Answers: []string{"fd00::1"}}),
		FileAccess(subject(Denied), FileOpen, "/etc/shadow"),
		Found(subject(Denied), Finding{ID: "oom_kill", Title: "memory limit met", Detail: "1 process was killed"}),
		Config(Subject{}, "policy applied"),
		Exit(Subject{}, Process{PID: 2, Binary: "/bin/sh"}, 1),
		Lifecycle(Subject{Message: "run stopped"}, RunStopped),
		API(Subject{}, Call{
			ID: "req_1", Method: "DELETE", Route: "/v1/cells/{cell}", Caller: "ci", From: "192.0.2.7", Cell: "other", Status: 204, Took: 3 * time.Millisecond,
		}),
		SSH(subject(Allowed), Login{Host: "git.example.com", Port: 22}),
		SSH(subject(Denied), Login{}),
	}
}

// TestGolden shows one record of each class.
func TestGolden(t *testing.T) {
	t.Parallel()
	f := newMemFile(nil)
	j, err := Create(f, testMeta(), Options{Now: newClock(time.Millisecond).Now})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range samples() {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := j.Seal(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join("testdata", "records.jsonl")
	if updating() {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(f.data), "\n")); d != "" {
		t.Error(d)
	}
}

// required is what the schema demands of each class, as paths of keys.
func required(c Class) []string {
	base := strings.Fields("time class_uid category_uid activity_id type_uid severity_id metadata.version metadata.product.name metadata.product.vendor_name metadata.sequence metadata.uid metadata.correlation_uid metadata.profiles action_id disposition_id status_id device.type_id device.name unmapped.cell unmapped.run policy.uid")
	switch c {
	case FileActivity:
		return append(base, "actor.process.pid", "file.name", "file.type_id")
	case ProcessActivity:
		return append(base, "actor.process.pid", "process.pid")
	case DetectionFinding:
		return append(base, "finding_info.uid", "finding_info.title")
	case NetworkActivity:
		return append(base, "dst_endpoint.port", "connection_info.direction_id")
	case HTTPActivity:
		return append(base, "dst_endpoint.port", "http_request.url.hostname", "http_request.http_method")
	case DNSActivity:
		return append(base, "query.hostname", "rcode_id", "dst_endpoint.ip")
	case SSHActivity:
		return append(base, "auth_type_id", "auth_type")
	case APIActivity:
		return append(base, "actor.user.name", "api.operation", "api.request.uid", "api.response.code", "src_endpoint.ip")
	case AppLifecycle:
		return append(base, "app.name", "app.vendor_name")
	}
	return base
}

func TestRequiredFields(t *testing.T) {
	t.Parallel()
	seen := map[Class]bool{}
	f := newMemFile(nil)
	j, err := Create(f, testMeta(), Options{Window: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range samples() {
		seen[e.Class()] = true
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(string(f.data)) {
		var doc map[string]any
		if err := json.Unmarshal([]byte(line), &doc); err != nil {
			t.Fatal(err)
		}
		class := Class(doc["class_uid"].(float64))
		for _, p := range required(class) {
			at := any(doc)
			for key := range strings.SplitSeq(p, ".") {
				m, _ := at.(map[string]any)
				at = m[key]
			}
			if at == nil {
				t.Errorf("%v: no %s in %s", class, p, line)
			}
		}
		if doc["type_uid"].(float64) != doc["class_uid"].(float64)*100+doc["activity_id"].(float64) {
			t.Errorf("type_uid of %s", line)
		}
		if int(doc["category_uid"].(float64)) != int(class)/1000 {
			t.Errorf("category_uid of %s", line)
		}
	}
	for _, c := range Classes() {
		if !seen[c] {
			t.Errorf("no sample of %v", c)
		}
	}
}

func TestParseClass(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Class{
		"http_activity": 4002, "4002": 4002, "file_activity": 1001, "device_config_state_change": 5019,
		"application_lifecycle": 6002, "2004": 2004,
	} {
		if got, err := ParseClass(in); got != want || err != nil {
			t.Errorf("%s: %d %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "HTTP Activity", "04002", "+4002", "4", "9999"} {
		if c, err := ParseClass(bad); err == nil {
			t.Errorf("%q: %v", bad, c)
		}
	}
	if _, err := ParseAction("denied"); err != nil {
		t.Error(err)
	}
	if _, err := ParseAction("Denied"); err == nil {
		t.Error("Denied is no action")
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in    string
		limit int
		want  string
	}{
		{"plain", 10, `plain`},
		{"a\"b\\c", 20, `a\"b\\c`},
		{"a\nb\x1b[2J", 40, `a\u000ab\u001b[2J`},
		{"\u202eabc\u200b", 40, `\u202eabc\u200b`},
		{"a\xff\xfe", 40, `a\\xff\\xfe`},
		{"é日", 10, `é日`},
		{"\U000e0041", 40, `\udb40\udc41`},
		{"0123456789", 4, `0123...(6 bytes more)`},
		{"日日日", 4, `日...(6 bytes more)`},
		{"<a>&", 10, `<a>&`},
	}
	for _, tt := range tests {
		if got := clip(tt.in, tt.limit); string(got) != tt.want {
			t.Errorf("%q: %s", tt.in, got)
		}
	}
	if got := cmdLine([]string{"a", "", "b c"}); got != `a '' 'b c'` {
		t.Errorf("%s", got)
	}
	if got := cmdLine(make([]string, 100_000)); len(got) > argsText+40 {
		t.Errorf("%d bytes", len(got))
	}
}

// TestHostileBounds has every text as long and as expensive as possible.
func TestHostileBounds(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"\x00", "\xff", "\u202e", "\U000e0041", "\"", "a"} {
		s := strings.Repeat(unit, 10_000)
		p := Process{PID: 1, Binary: "/" + s, Args: []string{s, s}}
		sub := Subject{Verdict: Denied, Process: p, Rule: s, Policy: s, Reason: s, Message: s}
		c := Connection{Host: s, IP: s, Port: 1}
		f := newMemFile(nil)
		j, err := Create(f, Meta{Cell: s, CellID: s, Run: s, Version: s}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []Event{
			HTTP(sub, Request{Connection: c, Scheme: s, Method: s, Path: s, Query: s, Version: s, Layer: s}),
			Network(sub, Opened, c),
			DNS(sub, Query{Name: s, Type: s, Answers: []string{s, s, s, s, s, s, s, s, s, s}}),
			FileAccess(sub, FileRead, s), Launch(sub, p), Exit(sub, p, 1),
			Found(sub, Finding{ID: s, Title: s, Detail: s}), Lifecycle(sub, RunStopped), Config(sub, s),
		} {
			if err := j.Append(e); err != nil {
				t.Fatalf("%q: %v", unit, err)
			}
		}
		sum, err := Verify(strings.NewReader(string(f.data)))
		if err != nil || sum.Records != 9 {
			t.Errorf("%q: %+v, %v", unit, sum, err)
		}
		if !utf8.Valid(f.data) {
			t.Errorf("%q: not UTF-8", unit)
		}
		for _, r := range string(f.data) {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q: %U is written as it is", unit, r)
			}
		}
	}
}

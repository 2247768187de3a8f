package web

import (
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

// TestEventLine: a line of the timeline says what was done, to what, why it was denied,
// and what would allow it.
func TestEventLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, raw                 string
		class                     event.Class
		message, target, smallest string
		suggestible               bool
	}{
		{
			"request", `{"class_uid":4002,"activity_name":"Get","message":"access: full","status_detail":"request: no rule","http_request":{"http_method":"PUT","url":{"path":"/x"}},"dst_endpoint":{"hostname":"a.example","port":443}}`,
			event.HTTPActivity, "PUT /x: request: no rule", "a.example:443", "access: full", true,
		},
		{
			"connection", `{"class_uid":4001,"activity_id":5,"activity_name":"Refuse","message":"network_policies: {}","status_detail":"endpoint: no rule","dst_endpoint":{"ip":"2001:db8::1","port":22}}`,
			event.NetworkActivity, "connection refused: endpoint: no rule", "[2001:db8::1]:22", "network_policies: {}", true,
		},
		{
			"ssh agent", `{"class_uid":4007,"activity_id":5,"activity_name":"Refuse","status_detail":"the agent holds no such key","dst_endpoint":{"hostname":"a.example","port":22}}`,
			event.SSHActivity, "Refuse: the agent holds no such key", "a.example:22", "", false,
		},
		{
			"system call", `{"class_uid":2004,"activity_name":"Create","status_detail":"it is in the deny set","firewall_rule":{"name":"seccomp: mount"},"finding_info":{"title":"the system call mount was denied","desc":"it gave EPERM"}}`,
			event.DetectionFinding, "the system call mount was denied: it gave EPERM: it is in the deny set", "", "process: {allow_syscalls: [mount]}", false,
		},
		{
			"end of a process", `{"class_uid":1007,"message":"the command has ended","exit_code":3,"process":{"cmd_line":"false"}}`,
			event.ProcessActivity, "the command has ended, exit code 3", "false", "", false,
		},
		{"broken", `{`, event.FileActivity, "this event cannot be read", "", "", false},
	} {
		l := newEventLine(event.Record{Class: c.class, Action: event.ActionDenied, Raw: []byte(c.raw)})
		if l.Message != c.message || l.Target != c.target || l.Smallest != c.smallest || l.Suggestible() != c.suggestible {
			t.Errorf("%s: %+v", c.name, l)
		}
	}
}

// TestEventDays: a day is named above its newest event.
func TestEventDays(t *testing.T) {
	t.Parallel()
	at := func(text string) eventLine {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return eventLine{Time: when}
	}
	b := eventsBody{Lines: []eventLine{at("2026-03-02T00:30:00Z"), at("2026-03-02T00:10:00Z"), at("2026-03-02T00:10:00+01:00")}}
	for i, want := range []string{"2026-03-02", "", "2026-03-01"} {
		if got := b.NewDay(i); got != want {
			t.Errorf("line %d: %q, want %q", i, got, want)
		}
	}
}

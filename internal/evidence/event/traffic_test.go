package event

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestTraffic checks the fields for bytes and time in events of connections and
// requests, and in their repetitions.
func TestTraffic(t *testing.T) {
	t.Parallel()
	took := func(v Verdict, message string, sent, received, ms int64) Event {
		return HTTP(Subject{Verdict: v, Message: message}, Request{
			Connection: Connection{Host: "a.example", Port: 443, Traffic: &Traffic{Sent: sent, Received: received, Took: time.Duration(ms) * time.Millisecond}},
			Method:     "GET", Path: "/",
		})
	}
	f := newMemFile(nil)
	j := mustCreate(t, f, Options{Now: newClock(10 * time.Millisecond).Now})
	for _, e := range []Event{
		took(Allowed, "", 1, 1000, 3), took(Allowed, "", 2, 2000, 4), took(Allowed, "", 3, 3000, 5), // one and two repetitions
		took(Denied, "hint", 0, 0, 6), took(Denied, "hint", 0, 0, 7), // one and one
		took(Allowed, "more", 5, 0, 8),
		Network(Subject{Verdict: Denied}, Refused, Connection{IP: "192.0.2.1", Port: 22}),
	} {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := j.Seal(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(f.data)) {
		var r struct {
			Count    int
			Duration *int
			Traffic  *traffic
			Message  string
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Traffic == nil || r.Duration == nil {
			got = append(got, fmt.Sprint(r.Count, " nothing"))
			continue
		}
		got = append(got, fmt.Sprint(r.Count, " ", r.Traffic.BytesOut, " ", r.Traffic.BytesIn, " ", *r.Duration, " ", r.Message))
	}
	want := []string{
		"0 1 1000 3 1 bytes sent, 1000 received, 3 ms",
		"0 0 0 6 hint",
		"0 5 0 8 5 bytes sent, 0 received, 8 ms, more",
		"0 nothing",
		"2 5 5000 10 5 bytes sent, 5000 received, 10 ms",
		"0 0 0 7 hint",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

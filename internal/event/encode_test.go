package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawn fills a value: every field may be empty, and pointers nil.
func drawn(t *rapid.T, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			drawn(t, v.Field(i), depth)
		}
	case reflect.Pointer:
		if depth < 3 && rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			drawn(t, v.Elem(), depth+1)
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 2).Draw(t, "length")
		if n == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			drawn(t, v.Index(i), depth)
		}
	case reflect.String:
		s := rapid.SampledFrom([]string{"", "a", "GET", `q"uo\te`, "é日", "<&>"}).Draw(t, "text")
		if v.Type() == reflect.TypeFor[text]() {
			s = string(short(s))
		}
		v.SetString(s)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(rapid.IntRange(-1, 2).Draw(t, "number")))
	case reflect.Uint64:
		v.SetUint(uint64(rapid.IntRange(0, 2).Draw(t, "count")))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	default:
		t.Fatalf("a field of kind %s", v.Kind())
	}
}

// TestEncode compares what is written by hand with encoding/json, over records
// with all fields that there are.
func TestEncode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var r record
		drawn(t, reflect.ValueOf(&r).Elem(), 0)
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want.String(), string(r.encode(nil))); d != "" {
			t.Fatal(d)
		}
	})
}

// TestTraffic has the fields for bytes and time in events of connections and
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

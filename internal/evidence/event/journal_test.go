package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func netEvent(v Verdict, port int) Event {
	return Network(Subject{Verdict: v, Rule: "r", Process: Process{PID: 3, Binary: "/bin/x"}}, Opened, Connection{Host: "h", Port: port})
}

func mustCreate(t *testing.T, f File, opt Options) *Journal {
	t.Helper()
	j, err := Create(f, testMeta(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func readAll(t *testing.T, data []byte, f Filter) []Record {
	t.Helper()
	var list []Record
	if err := Read(bytes.NewReader(data), f, func(r Record) error { list = append(list, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestSealEqualsVerify(t *testing.T) {
	t.Parallel()
	f := newMemFile(nil)
	j := mustCreate(t, f, Options{})
	for i := range 10 {
		if err := j.Append(netEvent([]Verdict{Allowed, Denied, Audited}[i%3], i)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := j.Seal()
	if err != nil {
		t.Fatal(err)
	}
	want, err := Verify(bytes.NewReader(f.data))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got.Records != 10 || got.Actions[ActionDenied] != 3 || got.Actions[ActionAllowed] != 7 || got.Classes[NetworkActivity] != 10 || got.Bytes != int64(len(f.data)) {
		t.Errorf("%+v", got)
	}
	if f.syncs != 1 {
		t.Errorf("%d syncs", f.syncs)
	}
	if err := j.Append(netEvent(Allowed, 1)); !errors.Is(err, errSealed) {
		t.Errorf("append: %v", err)
	}
	if _, err := j.Seal(); !errors.Is(err, errSealed) {
		t.Errorf("seal: %v", err)
	}
	if _, err := Create(f, testMeta(), Options{}); err == nil {
		t.Error("a journal was created over another")
	}
}

func TestEmptyJournal(t *testing.T) {
	t.Parallel()
	got, err := mustCreate(t, newMemFile(nil), Options{}).Seal()
	if err != nil || got.Records != 0 || got.Head != strings.Repeat("0", 64) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestTampering changes a journal in every relevant way.
func TestTampering(t *testing.T) {
	t.Parallel()
	f := newMemFile(nil)
	j := mustCreate(t, f, Options{})
	for i := range 4 {
		if err := j.Append(netEvent(Denied, i)); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := j.Seal()
	if err != nil {
		t.Fatal(err)
	}
	l := strings.SplitAfter(string(f.data), "\n")[:4]
	for name, text := range map[string]string{
		"changed":         l[0] + strings.Replace(l[1], "Denied", "denied", 1) + l[2] + l[3],
		"swapped":         l[0] + l[2] + l[1] + l[3],
		"one gone":        l[0] + l[1] + l[3],
		"first gone":      l[1] + l[2] + l[3],
		"twice":           l[0] + l[0] + l[1] + l[2] + l[3],
		"torn":            l[0] + l[1] + l[2] + l[3][:len(l[3])-1],
		"empty line":      l[0] + "\n" + l[1] + l[2] + l[3],
		"foreign":         l[0] + "{}\n" + l[1] + l[2] + l[3],
		"too long a line": l[0] + strings.Repeat("x", maxLine) + "\n",
	} {
		if got, err := Verify(strings.NewReader(text)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	// Only the receipt shows where the journal ends.
	for name, text := range map[string]string{
		"last gone":    l[0] + l[1] + l[2],
		"last changed": l[0] + l[1] + l[2] + strings.Replace(l[3], "Denied", "denied", 1),
	} {
		if got, err := Verify(strings.NewReader(text)); err != nil || got.Head == sum.Head {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	f := newMemFile(nil)
	j := mustCreate(t, f, Options{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				if err := j.Append(netEvent(Allowed, 1000*g+i+1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	sum, err := j.Seal()
	if err != nil || sum.Records != 800 {
		t.Errorf("%+v, %v", sum, err)
	}
	if _, err := Verify(bytes.NewReader(f.data)); err != nil {
		t.Error(err)
	}
}

func TestRepetitions(t *testing.T) {
	t.Parallel()
	clock := newClock(0)
	f := newMemFile(nil)
	j := mustCreate(t, f, Options{Now: clock.Now})
	add := func(after time.Duration, port int) {
		t.Helper()
		clock.now = clock.now.Add(after)
		if err := j.Append(netEvent(Denied, port)); err != nil {
			t.Fatal(err)
		}
	}
	add(0, 1)                    // written
	add(10*time.Millisecond, 1)  // held
	add(10*time.Millisecond, 2)  // written
	add(10*time.Millisecond, 1)  // held
	add(time.Second, 3)          // the two, then this one
	add(10*time.Millisecond, 3)  // held
	add(10*time.Millisecond, 1)  // a new window: written
	add(900*time.Millisecond, 3) // held
	sum, err := j.Seal()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range readAll(t, f.data, Filter{}) {
		got = append(got, fmt.Sprintf("%d x%d +%dms", r.Sequence, r.Count, r.Time.UnixMilli()-1_700_000_000_000))
	}
	want := []string{"1 x1 +0ms", "2 x1 +20ms", "3 x2 +30ms", "4 x1 +1030ms", "5 x1 +1050ms", "6 x2 +1950ms"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if sum.Actions[ActionDenied] != 8 || sum.Records != 6 {
		t.Errorf("%+v", sum)
	}
	if !bytes.Contains(f.data, []byte(`"count":2,"start_time":1700000000010,"end_time":1700000000030`)) {
		t.Error("the record of repetitions lacks its times")
	}
}

func TestManyDifferentRepetitions(t *testing.T) {
	t.Parallel()
	f := newMemFile(nil)
	j := mustCreate(t, f, Options{Now: newClock(0).Now})
	for round := range 2 {
		for i := range 2*maxRepeats + 1 {
			if err := j.Append(netEvent(Allowed, i+1)); err != nil {
				t.Fatal(round, err)
			}
			if len(j.repeats) > maxRepeats {
				t.Fatalf("%d are remembered", len(j.repeats))
			}
		}
	}
	sum, err := j.Seal()
	if err != nil || sum.Actions[ActionAllowed] != 2*(2*maxRepeats+1) {
		t.Errorf("%+v, %v", sum, err)
	}
}

// TestManyDenials: a command that is denied thousands of connections, each to another port,
// does not fill its journal. All of them are counted.
func TestManyDenials(t *testing.T) {
	t.Parallel()
	f, now := newMemFile(nil), time.Unix(1_700_000_000, 0)
	j := mustCreate(t, f, Options{Now: func() time.Time { return now }})
	const count = 20_000
	for i := range count {
		now = now.Add(time.Millisecond)
		if err := j.Append(netEvent(Denied, i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 * deniedAtOnce {
		if err := j.Append(netEvent(Allowed, i)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := j.Seal()
	if err != nil {
		t.Fatal(err)
	}
	if got.Actions[ActionDenied] != count || got.Actions[ActionAllowed] != 3*deniedAtOnce {
		t.Errorf("%+v", got.Actions)
	}
	if denied := got.Records - 3*deniedAtOnce; denied < deniedAtOnce || denied > deniedAtOnce+100 {
		t.Errorf("%d records of %d denials", denied, count)
	}
}

func TestPolicyChange(t *testing.T) {
	t.Parallel()
	f := newMemFile(nil)
	j := mustCreate(t, f, Options{Now: newClock(0).Now})
	for range 3 {
		if err := j.Append(netEvent(Allowed, 1)); err != nil {
			t.Fatal(err)
		}
	}
	from, err := j.SetPolicy("sha256:p2")
	if err != nil || from != 3 {
		t.Fatalf("from %d, %v", from, err)
	}
	if err := j.Append(netEvent(Allowed, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Seal(); err != nil {
		t.Fatal(err)
	}
	for _, r := range readAll(t, f.data, Filter{}) {
		want := `"policy":{"uid":"sha256:p1"}`
		if r.Sequence >= from {
			want = `"policy":{"uid":"sha256:p2"}`
		}
		if !bytes.Contains(r.Raw, []byte(want)) {
			t.Errorf("record %d: %s", r.Sequence, r.Raw)
		}
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	f := newMemFile(nil)
	j := mustCreate(t, f, Options{MaxBytes: 1, Now: newClock(0).Now})
	const n = 3000
	for i := range n {
		if err := j.Append(netEvent([]Verdict{Allowed, Denied}[i%2], i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Append(Lifecycle(Subject{Message: "interrupted"}, RunStopped)); err != nil {
		t.Fatal(err)
	}
	sum, err := j.Seal()
	if err != nil {
		t.Fatal(err)
	}
	if len(f.data) > leastMaxBytes || len(f.data) < leastMaxBytes/2 {
		t.Errorf("%d bytes", len(f.data))
	}
	again, err := Verify(bytes.NewReader(f.data))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(again, sum); d != "" {
		t.Error(d)
	}
	written := sum.Classes[NetworkActivity]
	if written == 0 || written+sum.Dropped[ActionAllowed]+sum.Dropped[ActionDenied] != n || sum.Dropped[ActionDenied] == 0 {
		t.Errorf("%+v", sum)
	}
	list := readAll(t, f.data, Filter{Limit: 2})
	if list[0].Class != AppLifecycle || !bytes.Contains(list[1].Raw, fmt.Appendf(nil, `"title":"events dropped: %d"`, n-written)) {
		t.Errorf("the end is %s\n%s", list[0].Raw, list[1].Raw)
	}
}

func TestWriteFails(t *testing.T) {
	t.Parallel()
	f := newMemFile(nil)
	j := mustCreate(t, f, Options{})
	if err := j.Append(netEvent(Allowed, 1)); err != nil {
		t.Fatal(err)
	}
	size := len(f.data)
	f.room = 100
	for range 2 {
		if err := j.Append(netEvent(Allowed, 2)); !errors.Is(err, errFull) {
			t.Errorf("append: %v", err)
		}
	}
	if _, err := j.SetPolicy("x"); !errors.Is(err, errFull) {
		t.Errorf("policy: %v", err)
	}
	if _, err := j.Seal(); !errors.Is(err, errFull) {
		t.Errorf("seal: %v", err)
	}
	if len(f.data) != size {
		t.Errorf("%d bytes of a failed write are left", len(f.data)-size)
	}
	f = newMemFile(nil)
	f.fail = errFull
	if _, err := mustCreate(t, f, Options{}).Seal(); !errors.Is(err, errFull) {
		t.Errorf("sync: %v", err)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	f := newMemFile(nil)
	j := mustCreate(t, f, Options{Now: newClock(time.Second).Now, Window: -1})
	for _, e := range samples() {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	start := time.UnixMilli(1_700_000_000_000)
	for name, tt := range map[string]struct {
		f    Filter
		want []uint64
	}{
		"all":      {Filter{}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
		"class":    {Filter{Class: HTTPActivity}, []uint64{4, 5}},
		"denied":   {Filter{Action: ActionDenied}, []uint64{3, 6, 8, 9, 15}},
		"since":    {Filter{Since: start.Add(11 * time.Second)}, []uint64{11, 12, 13, 14, 15}},
		"last two": {Filter{Action: ActionDenied, Limit: 2}, []uint64{9, 15}},
		"more":     {Filter{Class: DNSActivity, Limit: 5}, []uint64{6, 7}},
		"none":     {Filter{Class: DNSActivity, Since: start.Add(time.Hour)}, nil},
	} {
		var got []uint64
		for _, r := range readAll(t, f.data, tt.f) {
			got = append(got, r.Sequence)
			if r.Cell != "demo" && r.Class != APIActivity || r.Run != "run_01" {
				t.Errorf("%+v", r)
			}
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	// A record that is being written is not visible yet.
	if got := readAll(t, f.data[:len(f.data)-3], Filter{}); len(got) != 14 {
		t.Errorf("%d of a torn journal", len(got))
	}
	stop := errors.New("enough")
	if err := Read(bytes.NewReader(f.data), Filter{Limit: 3}, func(Record) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// TestChainByHand computes the chain as docs/formats/events.md says.
func TestChainByHand(t *testing.T) {
	t.Parallel()
	f := newMemFile(nil)
	j := mustCreate(t, f, Options{})
	for i := range 3 {
		if err := j.Append(netEvent(Denied, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := j.Seal()
	if err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 32)
	for line := range strings.Lines(string(f.data)) {
		if !strings.Contains(line, fmt.Sprintf(`"prev":"%x"`, head)) {
			t.Errorf("%x is not in %s", head, line)
		}
		next := sha256.Sum256([]byte("forkcell.event.chain.v1\x00" + string(head) + strings.TrimSuffix(line, "\n")))
		head = next[:]
	}
	if sum.Head != hex.EncodeToString(head) {
		t.Errorf("%s, not %x", sum.Head, head)
	}
}

// TestExecuted: the summary lists the commands that clients executed, and only those, up
// to a bound, also of a journal that is found again.
func TestExecuted(t *testing.T) {
	t.Parallel()
	f := newMemFile(nil)
	j, err := Create(f, testMeta(), Options{Now: newClock(time.Millisecond).Now})
	if err != nil {
		t.Fatal(err)
	}
	appendAll := func(events ...Event) {
		t.Helper()
		for _, e := range events {
			if err := j.Append(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	appendAll(
		Execute(Subject{}, Process{PID: 2, Args: []string{"make", "a b"}}),
		Launch(Subject{}, Process{PID: 3, Args: []string{"a program in the cell"}}),
		Execute(Subject{}, Process{PID: 4, Args: []string{"printf", "\"\\n\""}}),
	)
	if j, _, err = Recover(f, testMeta(), Options{Now: newClock(time.Millisecond).Now}); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		appendAll(Execute(Subject{}, Process{PID: 5 + i, Args: []string{"true"}}))
	}
	sum, err := j.Seal()
	if err != nil {
		t.Fatal(err)
	}
	if sum.Executed.Count != 202 || len(sum.Executed.Lines) != maxExecutedLines {
		t.Errorf("%d commands, %d lines", sum.Executed.Count, len(sum.Executed.Lines))
	}
	if got, want := sum.Executed.Lines[:2], []string{"make 'a b'", `printf '"\n"'`}; !cmp.Equal(got, want) {
		t.Errorf("first: %q, not %q", got, want)
	}
}

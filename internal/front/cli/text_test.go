package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

func TestSizesNumbersAges(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 1<<63 - 1: "8.0 EiB", 1048575: "1.0 MiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := number(n); got != want {
			t.Errorf("number(%d) = %s, want %s", n, got, want)
		}
	}
	now := time.Unix(1e9, 0)
	for d, want := range map[time.Duration]string{
		-time.Hour: "now", 0: "now", 90 * time.Second: "90s", 5 * time.Minute: "5m", 30 * time.Hour: "30h", 72 * time.Hour: "3d",
	} {
		if got := age(now, now.Add(-d)); got != want {
			t.Errorf("age(%s) = %s, want %s", d, got, want)
		}
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"0": 0, "90s": 90 * time.Second, "7d": 168 * time.Hour, "2w": 336 * time.Hour, "1h30m": 90 * time.Minute} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "5", "-1s", "d", "-1d", "1.5d", "99999999999d", "4000000000w", "soon"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestProgressLines(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	now := time.Unix(1e9, 0)
	s := newSession(nil, Streams{Err: &b}, "v")
	s.now = func() time.Time { return now }
	report, done := s.progress()
	for i := range 50 { // five seconds
		report(api.Progress{What: "import\x1b", Files: int64(i), TotalFiles: 50, Bytes: 2048})
		now = now.Add(100 * time.Millisecond)
	}
	done()
	report(api.Progress{What: "late"})
	want := "forkcell: import\\x1b: 20 of 50 files, 2.0 KiB\nforkcell: import\\x1b: 40 of 50 files, 2.0 KiB\n"
	if b.String() != want {
		t.Errorf("%q", b.String())
	}
	for _, quiet := range []func(){func() { s.quiet, s.json = true, false }, func() { s.quiet, s.json = false, true }} {
		quiet()
		if report, _ := s.progress(); report != nil {
			t.Error("progress with --quiet or --json")
		}
	}
}

func TestGraph(t *testing.T) {
	t.Parallel()
	nodes := []api.GraphNode{
		{CheckpointID: "chk_a", Cell: "demo", Kind: "init"},
		{CheckpointID: "chk_b", Parent: "chk_a", Cell: "demo", Kind: "run", Outcome: "failed", Decision: "restored", Freed: true},
		{CheckpointID: "chk_c", Parent: "chk_a", Cell: "demo", Kind: "run", Outcome: "succeeded", Decision: "pending", Heads: []string{"demo", "try"}},
		{CheckpointID: "chk_d", Parent: "chk_gone", Cell: "x", Kind: "run", Names: []string{"v\x1b\"1"}},
	}
	var b bytes.Buffer
	printLineage(newPage(&b, false), nodes)
	want := "* chk_a demo init\n|\\\n| * chk_b demo run failed restored (freed)\n* chk_c demo run succeeded pending <- demo, try\n* chk_d x run \"v\\x1b\"1\"\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	printDot(newPage(&b, false), nodes)
	for _, want := range []string{`"chk_a" -> "chk_c";`, `"chk_c" [label="chk_c\ndemo run\nsucceeded pending\nhead of demo, try", style=bold];`, `v\\x1b\"1`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

func TestColours(t *testing.T) {
	t.Parallel()
	p := newPage(&bytes.Buffer{}, true)
	if got := p.word("failed"); got != "\x1b[31mfailed\x1b[0m" {
		t.Errorf("%q", got)
	}
	s := newSession(nil, Streams{Out: &bytes.Buffer{}}, "v")
	if s.colours(s.streams.Out) {
		t.Error("colours without a terminal")
	}
}

// TestPageEscapes: no text makes a line, a column or a colour, whatever the place that it
// is printed in.
func TestPageEscapes(t *testing.T) {
	t.Parallel()
	type word string
	evil := "a\x1b[31mb\x1b[0m\tc\nd\u202e"
	const safe = `a\x1b[31mb\x1b[0m\tc\nd\u202e`
	for _, colours := range []bool{false, true} {
		var b bytes.Buffer
		p := newPage(&b, colours)
		p.printf("%s %v %s %d %v %s\n", evil, word(evil), errors.New(evil), 3, []string{evil}, p.paint(red, evil))
		p.table([][]string{{"x", evil, "y " + p.paint(green, evil) + evil}})
		p.pairs("key", evil)
		p.lines(evil + "\n")
		red, green, end := "", "", ""
		if colours {
			red, green, end = "\x1b[31m", "\x1b[32m", "\x1b[0m"
		}
		want := safe + " " + safe + " " + safe + " 3 [" + safe + "] " + red + safe + end + "\n" +
			"x  " + safe + "  y " + green + safe + end + safe + "\n" +
			"key:  " + safe + "\n" +
			"a\\x1b[31mb\\x1b[0m\tc\nd\\u202e\n"
		if b.String() != want || p.err != nil {
			t.Errorf("colours %v: %v\n got %q\nwant %q", colours, p.err, b.String(), want)
		}
	}
}

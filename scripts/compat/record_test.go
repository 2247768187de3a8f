package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wellFormed is the report of a machine with the jobs a and b.
func wellFormed(t testing.TB) string {
	t.Helper()
	var out bytes.Buffer
	w := &writer{out: &out}
	for _, r := range []record{
		{Kind: kindHello, Kernel: "6.1.0-1-cloud-amd64", Landlock: 2},
		{Kind: kindBegin, Job: "a"},
		{Kind: kindOutput, Job: "a", Data: []byte("one\ntwo\x16<")},
		{Kind: kindEnd, Job: "a", Millis: 12},
		{Kind: kindBegin, Job: "b"},
		{Kind: kindEnd, Job: "b", Code: -1, Error: "no such file"},
		{Kind: kindBye, Jobs: 2},
	} {
		if err := w.write(r); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func read(text string) ([]record, error) {
	var list []record
	err := readRecords(strings.NewReader(text), []string{"a", "b"}, func(r record) error {
		list = append(list, r)
		return nil
	})
	return list, err
}

func TestReportRoundTrip(t *testing.T) {
	t.Parallel()
	text := wellFormed(t)
	list, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	w := &writer{out: &again}
	for _, r := range list {
		if err := w.write(r); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(text, again.String()); diff != "" {
		t.Error(diff)
	}
}

// A report that is not whole, in any way, is no report.
func TestReportMustBeWhole(t *testing.T) {
	t.Parallel()
	text := wellFormed(t)
	lines := slices.Collect(strings.Lines(text))
	for i := range lines {
		without := strings.Join(lines[:i], "") + strings.Join(lines[i+1:], "")
		if _, err := read(without); err == nil {
			t.Errorf("without line %d it was taken", i+1)
		}
		twice := strings.Join(lines[:i+1], "") + strings.Join(lines[i:], "")
		if _, err := read(twice); err == nil {
			t.Errorf("with line %d twice it was taken", i+1)
		}
	}
	for cut := range len(text) {
		if _, err := read(text[:cut]); err == nil {
			t.Errorf("cut off after %d bytes it was taken", cut)
		}
	}
}

func TestReportMustBeExact(t *testing.T) {
	t.Parallel()
	text := wellFormed(t)
	for _, c := range []struct{ name, old, new string }{
		{"kernel message in between", `{"seq":3`, "[    9.1] hrtimer: interrupt took 1 ns\n" + `{"seq":3`},
		{"unknown field", `"jobs":2`, `"jobs":2,"more":1`},
		{"other spelling", `"jobs":2`, `"Jobs":2`},
		{"field twice", `"jobs":2`, `"jobs":1,"jobs":2`},
		{"second value", `"jobs":2}`, `"jobs":2}{}`},
		{"wrong number of jobs", `"jobs":2`, `"jobs":1`},
		{"wrong job", `"begin","job":"b"`, `"begin","job":"a"`},
		{"wrong number", `"seq":5`, `"seq":6`},
		{"unknown kind", `"kind":"output"`, `"kind":"chatter"`},
		{"output of another job", `"output","job":"a"`, `"output","job":"b"`},
		{"end without begin", `"begin","job":"b"`, `"end","job":"b"`},
		{"carriage return", "}\n", "}\r\n"},
		{"too long", `"kernel":"`, `"kernel":"` + strings.Repeat("x", maxLine)},
	} {
		changed := strings.Replace(text, c.old, c.new, 1)
		if changed == text {
			t.Fatalf("%s: nothing to change", c.name)
		}
		if _, err := read(changed); err == nil {
			t.Errorf("%s: it was taken", c.name)
		}
	}
}

// The longest piece that the machine sends is one that the reader takes.
func TestPiecesFit(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &pieces{w: &writer{out: &out}, job: "a"}
	if _, err := p.Write(bytes.Repeat([]byte{0xff}, 3*pieceSize+1)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 4 {
		t.Errorf("%d pieces", len(lines))
	}
	for _, line := range lines {
		if len(line) >= maxLine {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
}

// Whatever is taken is exactly what the machine would have written.
func FuzzReport(f *testing.F) {
	f.Add(wellFormed(f))
	f.Add("")
	f.Add(`{"seq":1,"kind":"hello"}` + "\n" + `{"seq":2,"kind":"bye"}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := read(text)
		if err != nil {
			return
		}
		var again bytes.Buffer
		w := &writer{out: &again}
		for _, r := range list {
			if err := w.write(r); err != nil {
				t.Fatal(err)
			}
		}
		if again.String() != text {
			t.Errorf("%q was taken, and is %q", text, again.String())
		}
	})
}

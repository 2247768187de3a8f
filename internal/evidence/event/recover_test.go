package event

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func drawEvent(t *rapid.T) Event {
	s := Subject{
		Verdict: rapid.SampledFrom([]Verdict{Logged, Allowed, Denied, Audited}).Draw(t, "verdict"),
		Rule:    rapid.SampledFrom([]string{"", "a", "b\n\"\x80"}).Draw(t, "rule"),
		Message: rapid.StringN(0, 20, 100).Draw(t, "message"),
		Process: Process{PID: rapid.IntRange(0, 3).Draw(t, "pid"), Binary: "/bin/x"},
	}
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 4:
		return Execute(s, Process{PID: rapid.IntRange(4, 9).Draw(t, "executed"), Args: []string{"sh", "-c", rapid.String().Draw(t, "script")}})
	case 0:
		return Network(s, Opened, Connection{Host: "h", Port: rapid.IntRange(1, 3).Draw(t, "port")})
	case 1:
		return FileAccess(s, FileOpen, rapid.String().Draw(t, "path"))
	case 2:
		return DNS(s, Query{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), Type: "A"})
	}
	return HTTP(s, Request{Method: "GET", Path: "/"})
}

// TestCutAnywhere appends events, cuts the file at any byte, puts garbage there
// as after a lost page, and continues.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := newClock(time.Duration(rapid.IntRange(0, 700).Draw(t, "step")) * time.Millisecond)
		f := newMemFile(nil)
		j, err := Create(f, testMeta(), Options{Now: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		events := rapid.SliceOfN(rapid.Custom(drawEvent), 0, 12).Draw(t, "events")
		for _, e := range events {
			if err := j.Append(e); err != nil {
				t.Fatal(err)
			}
		}
		sum, err := j.Seal()
		if err != nil {
			t.Fatal(err)
		}
		if n := sum.Actions[ActionAllowed] + sum.Actions[ActionDenied]; n != uint64(len(events)) {
			t.Fatalf("%d events became %d", len(events), n)
		}
		if got, err := Verify(bytes.NewReader(f.data)); err != nil || !cmp.Equal(got, sum) {
			t.Fatalf("%v: %s", err, cmp.Diff(sum, got))
		}
		cut := rapid.IntRange(0, len(f.data)).Draw(t, "cut")
		rubble := rapid.SampledFrom([]string{"", "\x00\x00", "\x00\n", "{}\n"}).Draw(t, "rubble")
		checkRecovery(t, f.data[:cut], rubble)
	})
}

func checkRecovery(t *rapid.T, kept []byte, rubble string) {
	whole := kept[:bytes.LastIndexByte(kept, '\n')+1]
	f := newMemFile(append(bytes.Clone(kept), rubble...))
	j, found, err := Recover(f, testMeta(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(f.data, whole) {
		t.Fatalf("%d bytes are left of %d whole ones", len(f.data), len(whole))
	}
	if lost := int64(len(kept) + len(rubble) - len(whole)); found.CutBytes != lost || (found.Reason != "") != (lost > 0) {
		t.Fatalf("%+v, %d bytes lost", found, lost)
	}
	if found.Records != uint64(bytes.Count(whole, []byte("\n"))) {
		t.Fatalf("%+v", found)
	}
	if err := j.Append(Lifecycle(Subject{Message: "interrupted"}, RunStopped)); err != nil {
		t.Fatal(err)
	}
	sum, err := j.Seal()
	if err != nil || sum.Records != found.Records+1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if !bytes.HasPrefix(f.data, whole) {
		t.Fatal("the start has changed")
	}
	if got, err := Verify(bytes.NewReader(f.data)); err != nil || !cmp.Equal(got, sum) {
		t.Fatalf("%v: %s", err, cmp.Diff(sum, got))
	}
}

// TestRecoverKeepsEvidence: damage in the middle is not treated as a crash.
func TestRecoverKeepsEvidence(t *testing.T) {
	t.Parallel()
	f := newMemFile(nil)
	j := mustCreate(t, f, Options{Window: -1})
	for range 3 {
		if err := j.Append(netEvent(Denied, 1)); err != nil {
			t.Fatal(err)
		}
	}
	damaged := bytes.Replace(f.data, []byte("Denied"), []byte("denied"), 1)
	g := newMemFile(damaged)
	if _, _, err := Recover(g, testMeta(), Options{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("error %v", err)
	}
	if !bytes.Equal(g.data, damaged) {
		t.Error("the file has changed")
	}
}

// TestRealFile uses a file of the operating system, also one that is appended
// to.
func TestRealFile(t *testing.T) {
	t.Parallel()
	for _, flags := range []int{0, os.O_APPEND} {
		name := t.TempDir() + "/events.jsonl"
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|flags, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		j := mustCreate(t, f, Options{})
		for i := range 5 {
			if err := j.Append(netEvent(Allowed, i+1)); err != nil {
				t.Fatal(err)
			}
		}
		// The supervisor dies in the middle of a write.
		if _, err := f.WriteString(`{"time":17`); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		if f, err = os.OpenFile(name, os.O_RDWR|flags, 0); err != nil {
			t.Fatal(err)
		}
		k, found, err := Recover(f, testMeta(), Options{})
		if err != nil || found.Records != 5 || found.CutBytes != 10 {
			t.Fatalf("%+v, %v", found, err)
		}
		if err := k.Append(Lifecycle(Subject{Message: "interrupted"}, RunStopped)); err != nil {
			t.Fatal(err)
		}
		sum, err := k.Seal()
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Verify(bytes.NewReader(data)); err != nil || !cmp.Equal(got, sum) || got.Records != 6 {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// FuzzVerify reads any bytes without a panic. A journal that verifies can be
// recovered without loss and read to its end.
func FuzzVerify(f *testing.F) {
	m := newMemFile(nil)
	j, err := Create(m, testMeta(), Options{Now: newClock(time.Second).Now})
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range samples()[:3] {
		if err := j.Append(e); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(m.data)
	f.Add(m.data[:len(m.data)-5])
	f.Add([]byte("{}\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		sum, verr := Verify(bytes.NewReader(data))
		n := uint64(0)
		rerr := Read(bytes.NewReader(data), Filter{}, func(Record) error { n++; return nil })
		g := newMemFile(data)
		_, found, err := Recover(g, testMeta(), Options{})
		if verr == nil && (rerr != nil || n != sum.Records || err != nil || found.CutBytes != 0 || sum.Bytes != int64(len(data))) {
			t.Errorf("it verifies: %+v; read %d, %v; recover %+v, %v", sum, n, rerr, found, err)
		}
		if err != nil {
			if !bytes.Equal(g.data, data) {
				t.Error("a failed recovery changed the file")
			}
			return
		}
		if _, err := Verify(bytes.NewReader(g.data)); err != nil {
			t.Errorf("recovered, but: %v", err)
		}
	})
}

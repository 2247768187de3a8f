package receipt

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// testBundle is about the first receipt of the story, signed with key 1.
func testBundle(t testing.TB) (Bundle, *testLog) {
	l := story(t)
	return Bundle{
		Receipt: l.raw[1], Decisions: [][]byte{l.raw[2]}, Keys: [][]byte{l.raw[4]}, Context: [][]byte{l.raw[0]},
		Included: map[string][]byte{Hash([]byte(testStdout)): []byte(testStdout), Hash([]byte(testPolicy)): []byte(testPolicy)},
	}, l
}

func encodeBundle(t testing.TB, b Bundle) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := WriteBundle(&buf, b); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func states(r BundleReport) map[string]State {
	m := map[string]State{}
	for _, c := range r.Checks {
		m[c.Name] = c.State
	}
	return m
}

func TestBundleVerifies(t *testing.T) {
	t.Parallel()
	b, _ := testBundle(t)
	report, err := VerifyBundle(bytes.NewReader(encodeBundle(t, b)), trusted(1))
	if err != nil {
		t.Fatal(err, report.Checks)
	}
	want := map[string]State{
		"rcpt_0001": Verified, "dec_0001": Verified, "prev": Verified, "cell_prev": Verified,
		"key " + testSigner(2).KeyID(): Verified,
		"policy_hash":                  Verified, "logs.stdout": Verified, "logs.stderr": NotIncluded,
		"events.chain_head":      NotIncluded,
		"checkpoint_before.root": NotIncluded, "checkpoint_before.meta_root": NotIncluded,
		"checkpoint_after.root": NotIncluded, "checkpoint_after.meta_root": NotIncluded,
		"checkpoint_after.areas.home.root": NotIncluded, "checkpoint_after.areas.home.meta_root": NotIncluded,
		"checkpoint_after.areas.workspace.root": NotIncluded, "checkpoint_after.areas.workspace.meta_root": NotIncluded,
	}
	if diff := cmp.Diff(want, states(report)); diff != "" {
		t.Error(diff)
	}
	if report.Present.Result != Accepted || report.Present.DecisionID != "dec_0001" || !report.Present.Forced {
		t.Errorf("present = %+v", report.Present)
	}
	if report.TrustedKey != testSigner(1).KeyID() || report.ReceiptSHA256 != Hash(b.Receipt) {
		t.Error("wrong key or hash")
	}
}

func TestBundleOfLaterKey(t *testing.T) {
	t.Parallel()
	_, l := testBundle(t)
	b := Bundle{Receipt: l.raw[5], Decisions: [][]byte{l.raw[6]}, Keys: [][]byte{l.raw[4]}}
	report, err := b.Verify(trusted(1))
	if err != nil {
		t.Fatal(err)
	}
	if report.TrustedKey != testSigner(1).KeyID() || report.Run.KeyID != testSigner(2).KeyID() {
		t.Error("the trust did not come from the first key")
	}
	// The rotation stands just before the receipt, so it is its context too.
	if s := states(report); s["prev"] != Verified || s["cell_prev"] != NotIncluded {
		t.Errorf("states = %v", s)
	}
	if _, err := b.Verify(trusted(2)); err != nil {
		t.Errorf("with the new key alone: %v", err)
	}
	b.Keys = nil
	if _, err := b.Verify(trusted(1)); !errors.Is(err, ErrUntrusted) {
		t.Errorf("without the rotation: %v", err)
	}
}

func TestBundleKeyInsideNeverSuffices(t *testing.T) {
	t.Parallel()
	b, l := testBundle(t)
	for _, keys := range []*KeySet{NewKeySet(), trusted(9)} {
		if report, err := b.Verify(keys); !errors.Is(err, ErrUntrusted) || report.Run != nil {
			t.Errorf("err = %v, report = %v", err, report)
		}
	}
	// The second key is trusted, the receipt is of the first.
	if _, err := b.Verify(trusted(2)); !errors.Is(err, ErrUntrusted) {
		t.Errorf("backwards: %v", err)
	}
	// A receipt that the old key signs after it was replaced.
	l.signer = testSigner(1)
	b.Receipt, b.Decisions = l.add(testRun(7)), nil
	if _, err := b.Verify(trusted(1)); !errors.Is(err, ErrUntrusted) {
		t.Errorf("retired key: %v", err)
	}
}

func TestBundleMismatches(t *testing.T) {
	t.Parallel()
	stdout := Hash([]byte(testStdout))
	cases := []struct {
		name  string
		spoil func(b *Bundle, l *testLog)
		check string
	}{
		{"altered log", func(b *Bundle, _ *testLog) { b.Included[stdout] = []byte("other") }, "logs.stdout"},
		{"altered policy", func(b *Bundle, _ *testLog) { b.Included[Hash([]byte(testPolicy))] = nil }, "policy_hash"},
		{"foreign contents", func(b *Bundle, _ *testLog) { b.Included[Hash([]byte("x"))] = []byte("x") }, "included"},
		{"decision of another receipt", func(b *Bundle, l *testLog) { b.Decisions = [][]byte{l.raw[6]} }, "dec_0002"},
		{"a run as a decision", func(b *Bundle, l *testLog) { b.Decisions = [][]byte{l.raw[1]} }, "decision"},
		{"a broken decision", func(b *Bundle, _ *testLog) { b.Decisions = [][]byte{[]byte("{}")} }, "decision"},
		{"broken context", func(b *Bundle, _ *testLog) { b.Context = [][]byte{[]byte("{}")} }, "context"},
		{"another statement before", func(b *Bundle, l *testLog) {
			other := newTestLog(l.tb)
			c := testChange(OpInit)
			c.Details = nil
			b.Context = [][]byte{other.add(c)}
		}, "prev"},
		{"context of a foreign key", func(b *Bundle, l *testLog) {
			other := newTestLog(l.tb)
			other.signer = testSigner(9)
			b.Context = [][]byte{other.add(testChange(OpInit))}
		}, "context cell_1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, l := testBundle(t)
			c.spoil(&b, l)
			report, err := b.Verify(trusted(1))
			if !errors.Is(err, ErrChain) {
				t.Errorf("err = %v", err)
			}
			if got := states(report)[c.check]; got != Mismatch {
				t.Errorf("%s is %q; all: %v", c.check, got, report.Checks)
			}
			if report.Run == nil {
				t.Error("the report is empty")
			}
		})
	}
}

func TestBundleOfBrokenKeyStatement(t *testing.T) {
	t.Parallel()
	b, l := testBundle(t)
	b.Keys = [][]byte{l.raw[0]}
	if _, err := b.Verify(trusted(1)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a cell statement as a key statement: %v", err)
	}
	b.Keys, b.Receipt = nil, l.raw[0]
	if _, err := b.Verify(trusted(1)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a cell statement as a receipt: %v", err)
	}
}

func TestStrictBundle(t *testing.T) {
	t.Parallel()
	b, _ := testBundle(t)
	good := string(encodeBundle(t, b))
	cases := map[string]string{
		"empty":         "",
		"other type":    strings.Replace(good, BundleType, "https://forkcell.dev/bundle/v2", 1),
		"unknown field": strings.Replace(good, `{"bundle"`, `{"x":1,"bundle"`, 1),
		"two receipts":  strings.Replace(good, `{"bundle"`, `{"receipt":"","bundle"`, 1),
		"other case":    strings.Replace(good, `"receipt"`, `"Receipt"`, 1),
		"line breaks":   strings.Replace(good, `"receipt":"`, `"receipt":"\n`, 1),
		"trailing data": good + "{}",
		"bad digest":    strings.Replace(good, Hash([]byte(testStdout)), "abc", 1),
	}
	for name, text := range cases {
		if _, err := VerifyBundle(strings.NewReader(text), trusted(1)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

// endless is a bundle that never ends.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read += len(p)
	return len(p), nil
}

func TestBundleIsBounded(t *testing.T) {
	t.Parallel()
	var r endless
	if _, err := ParseBundle(&r); !errors.Is(err, ErrMalformed) {
		t.Errorf("err = %v", err)
	}
	if r.read > MaxBundle+1 {
		t.Errorf("%d bytes were read", r.read)
	}
	b := Bundle{Included: map[string][]byte{sum(1): make([]byte, MaxBundle)}}
	if err := WriteBundle(new(bytes.Buffer), b); !errors.Is(err, ErrMalformed) {
		t.Errorf("write: %v", err)
	}
}

// The golden bundle was written once and must verify for ever. -update writes it
// anew, which is a change of the format.
func TestGoldenBundle(t *testing.T) {
	t.Parallel()
	b, _ := testBundle(t)
	report, err := b.Verify(trusted(1))
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := Markdown(&page, report.Run, report.Decisions, report.Checks); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"bundle.json": encodeBundle(t, b),
		"key.pem":     MarshalPublic(testSigner(1).Public()),
		"receipt.md":  page.Bytes(),
	} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(data)); diff != "" {
			t.Errorf("%s (-golden +now):\n%s", name, diff)
		}
	}
}

func TestPresent(t *testing.T) {
	t.Parallel()
	r := testRun(1)
	r.Seq = 5
	early, late := testDecision(1, r, nil), testDecision(2, r, nil)
	early.Seq, late.Seq, late.Result = 7, 9, Rejected
	other := testDecision(3, testRun(2), nil)
	other.Seq = 11
	before := testDecision(4, r, nil)
	before.Seq = 4
	if got := Present(r, nil); got.Result != Restored || !got.Automatic || got.Seq != 5 {
		t.Errorf("without decisions: %+v", got)
	}
	list := []*Decision{late, other, before, early}
	if got := Present(r, list); got.Result != Rejected || got.DecisionID != "dec_0002" {
		t.Errorf("with decisions: %+v", got)
	}
	if !slices.Equal(list, []*Decision{late, other, before, early}) {
		t.Error("the caller's list was changed")
	}
}

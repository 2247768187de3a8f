package receipt

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"google.golang.org/protobuf/encoding/protojson"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	l := newTestLog(t)
	for _, p := range []Predicate{testChange(OpInit), testRun(1), testChange(OpFork)} {
		raw := l.add(p)
		s, err := Verify(raw, trusted(1))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, s.Predicate); diff != "" {
			t.Errorf("%s differs after signing and reading (-signed +read):\n%s", p.PredicateType(), diff)
		}
	}
}

// The statements must be in-toto's in the eyes of in-toto's own library.
func TestStatementsAreInToto(t *testing.T) {
	t.Parallel()
	for _, raw := range story(t).raw {
		e, err := ParseEnvelope(raw)
		if err != nil {
			t.Fatal(err)
		}
		var s intoto.Statement
		if err := protojson.Unmarshal(e.Payload, &s); err != nil {
			t.Fatalf("in-toto cannot read %s: %v", e.Payload, err)
		}
		if err := s.Validate(); err != nil {
			t.Errorf("in-toto refuses %s: %v", e.Payload, err)
		}
		if s.GetPredicateType() != e.Statement.PredicateType {
			t.Errorf("predicateType %q", s.GetPredicateType())
		}
	}
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	l := story(t)
	want := map[string][]string{
		TypeRun: {"root", "meta_root"}, TypeCell: {"root", "meta_root"}, TypeDecision: {"receipt"}, TypeKey: {"key"},
	}
	for _, raw := range l.raw {
		e, err := ParseEnvelope(raw)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range e.Statement.Subject {
			names = append(names, s.Name)
		}
		if diff := cmp.Diff(want[e.Statement.PredicateType], names); diff != "" {
			t.Error(diff)
		}
	}
}

func TestSignBringsTimesToUTC(t *testing.T) {
	t.Parallel()
	l, r := newTestLog(t), testRun(1)
	l.place(r, "cell_1", "demo")
	r.CreatedAt = time.Now() // with a monotonic part
	r.StartedAt = testTime(1).In(time.FixedZone("east", 7200))
	raw, err := l.signer.Sign(r)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Verify(raw, trusted(1))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Predicate.(*Run).StartedAt; got != testTime(1) {
		t.Errorf("started_at = %v", got)
	}
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*Run){
		"no home":                 func(r *Run) { r.HomeID = "" },
		"home with a slash":       func(r *Run) { r.HomeID = "../x" },
		"seq 0":                   func(r *Run) { r.Seq = 0 },
		"prev of the first":       func(r *Run) { r.Prev = sum(1) },
		"no prev of the second":   func(r *Run) { r.Seq = 2 },
		"prev in capitals":        func(r *Run) { r.Seq, r.Prev = 2, strings.ToUpper(sum(1)) },
		"no cell":                 func(r *Run) { r.CellID = "" },
		"no time":                 func(r *Run) { r.CreatedAt = time.Time{} },
		"receipt id":              func(r *Run) { r.ReceiptID = "run_1" },
		"id with a newline":       func(r *Run) { r.RunID = "run_1\n" },
		"outcome":                 func(r *Run) { r.Outcome = "fine" },
		"root":                    func(r *Run) { r.CheckpointAfter.Root = "abc" },
		"layer with a slash":      func(r *Run) { r.CheckpointAfter.Layer = "a/b" },
		"area called ..":          func(r *Run) { r.CheckpointAfter.Areas[".."] = Roots{sum(1), sum(2)} },
		"accepted though failed":  func(r *Run) { r.Decision.Result = Accepted },
		"rejected in a receipt":   func(r *Run) { r.Decision.Result = Rejected },
		"pending with an id":      func(r *Run) { r.Decision = AutoDecision{Result: Pending} },
		"manual in a receipt":     func(r *Run) { r.Decision.Automatic = false },
		"policy hash":             func(r *Run) { r.PolicyHash = "x" },
		"log hash":                func(r *Run) { r.Logs[0].SHA256 = "" },
		"log shorter than kept":   func(r *Run) { r.Logs[1].Length = r.Logs[1].Bytes },
		"length of a whole log":   func(r *Run) { r.Logs[0].Length = r.Logs[0].Bytes + 1 },
		"controls are not JSON":   func(r *Run) { r.Controls.Asked = json.RawMessage(`{`) },
		"controls with two keys":  func(r *Run) { r.Controls.Asked = json.RawMessage(`{"a":1,"a":2}`) },
		"controls half a pair":    func(r *Run) { r.Controls.Asked = json.RawMessage(`{"a":"\ud800"}`) },
		"controls a pair reorder": func(r *Run) { r.Controls.Asked = json.RawMessage(`"\udc00\ud800"`) },
		"controls too deep": func(r *Run) {
			r.Controls.Asked = json.RawMessage(strings.Repeat("[", 100) + strings.Repeat("]", 100))
		},
		"too large": func(r *Run) { r.Error = strings.Repeat("x", MaxEnvelope) },
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, r := newTestLog(t), testRun(1)
			l.place(r, "cell_1", "demo")
			spoil(r)
			if _, err := l.signer.Sign(r); err == nil {
				t.Error("signed")
			}
		})
	}
	if _, err := testSigner(1).Sign(&Rotation{}); err == nil {
		t.Error("a rotation was signed by one key")
	}
}

func TestStrictPayload(t *testing.T) {
	t.Parallel()
	l := newTestLog(t)
	good, err := ParseEnvelope(l.add(testRun(1)))
	if err != nil {
		t.Fatal(err)
	}
	replace := func(old, with string) string {
		if !bytes.Contains(good.Payload, []byte(old)) {
			t.Fatalf("the payload does not hold %q", old)
		}
		return strings.Replace(string(good.Payload), old, with, 1)
	}
	cases := map[string]string{
		"unknown field":        replace(`"outcome":`, `"extra":1,"outcome":`),
		"unknown deep field":   replace(`"stream":`, `"extra":1,"stream":`),
		"unknown top field":    replace(`"_type":`, `"extra":1,"_type":`),
		"other case":           replace(`"outcome":`, `"Outcome":`),
		"two keys":             replace(`"outcome":"failed"`, `"outcome":"succeeded","outcome":"failed"`),
		"two keys, two cases":  replace(`"outcome":"failed"`, `"Outcome":"succeeded","outcome":"failed"`),
		"two keys in controls": replace(`"network":`, `"network":1,"network":`),
		"missing field":        replace(`"changed_files":1,`, ``),
		"null":                 replace(`"exit_code":7`, `"exit_code":null`),
		"null list":            replace(`"command":["sh","-lc","echo changed \u003e hello.txt; exit 7"]`, `"command":null`),
		"null predicate":       `{"_type":"` + StatementType + `","subject":[],"predicateType":"` + TypeRun + `","predicate":null}`,
		"float":                replace(`"exit_code":7`, `"exit_code":7.0`),
		"negative zero":        replace(`"signal":0`, `"signal":-0`),
		"other zone":           replace(`:06.123456789Z"`, `:06.123456789+00:00"`),
		"zeros in a time":      replace(`:06.123456789Z"`, `:06.12345678900Z"`),
		"_type":                replace(StatementType, "https://in-toto.io/Statement/v0.1"),
		"predicateType":        replace(TypeRun, "https://forkcell.dev/statement/run/v2"),
		"another's type":       replace(TypeRun, TypeDecision),
		"subject":              replace(`"name":"root","digest":{"sha256":"`+sum(20), `"name":"root","digest":{"sha256":"`+sum(21)),
		"subject order":        replace(`"name":"root"`, `"name":"r00t"`),
		"trailing data":        string(good.Payload) + "{}",
		"not UTF-8":            replace(`"/work"`, "\"/wo\xffrk\""),
		"half a pair":          replace(`"/work"`, `"/work\ud800"`),
		"empty":                "",
		"array":                "[]",
	}
	for name, payload := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Verify(forge(t, payload), trusted(1)); !errors.Is(err, ErrMalformed) {
				t.Errorf("err = %v, want malformed", err)
			}
		})
	}
	if _, err := Verify(forge(t, string(good.Payload)), trusted(1)); err != nil {
		t.Errorf("the payload itself: %v", err)
	}
	// Spaces carry no meaning, and are not refused.
	if _, err := Verify(forge(t, replace(`"outcome":`, ` "outcome" : `)), trusted(1)); err != nil {
		t.Errorf("with spaces: %v", err)
	}
}

// forge signs any payload with the trusted key.
func forge(t *testing.T, payload string) []byte {
	t.Helper()
	es, err := dsse.NewEnvelopeSigner(dsseSigner{testSigner(1)})
	if err != nil {
		t.Fatal(err)
	}
	e, err := es.SignPayload(t.Context(), PayloadType, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestStrictEnvelope(t *testing.T) {
	t.Parallel()
	l := newTestLog(t)
	raw := string(l.add(testRun(1)))
	var e dsse.Envelope
	if err := json.Unmarshal([]byte(raw), &e); err != nil {
		t.Fatal(err)
	}
	sig := e.Signatures[0].Sig
	rawSig, err := base64.StdEncoding.DecodeString(sig)
	if err != nil {
		t.Fatal(err)
	}
	one := raw[strings.Index(raw, `{"keyid"`):strings.LastIndex(raw, `]`)]
	cases := map[string]string{
		"URL alphabet":      strings.Replace(raw, sig, base64.URLEncoding.EncodeToString(append(rawSig, 0xff, 0xff)), 1),
		"line break":        strings.Replace(raw, sig, sig[:8]+`\n`+sig[8:], 1),
		"no padding":        strings.Replace(raw, sig, strings.TrimRight(sig, "="), 1),
		"loose last bits":   strings.Replace(raw, sig, sig[:85]+string(sig[85]+1)+"==", 1),
		"no signature":      strings.Replace(raw, one, "", 1),
		"two signatures":    strings.Replace(raw, one, one+","+one, 1),
		"no keyid":          strings.Replace(raw, e.Signatures[0].KeyID, "", 1),
		"unknown field":     strings.Replace(raw, `{"payloadType"`, `{"x":1,"payloadType"`, 1),
		"two payloads":      strings.Replace(raw, `{"payloadType"`, `{"payload":"","payloadType"`, 1),
		"other case":        strings.Replace(raw, `"payload"`, `"Payload"`, 1),
		"payloadType":       strings.Replace(raw, PayloadType, "application/json", 1),
		"trailing data":     raw + "x",
		"trailing envelope": raw + raw,
		"oversized":         raw + strings.Repeat(" ", MaxEnvelope),
		"empty":             "",
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Verify([]byte(text), trusted(1)); !errors.Is(err, ErrMalformed) {
				t.Errorf("err = %v, want malformed", err)
			}
		})
	}
}

// TestFlipEveryByte: whatever one byte is changed to, the envelope either fails or
// says the same.
func TestFlipEveryByte(t *testing.T) {
	t.Parallel()
	l := newTestLog(t)
	l.add(testChange(OpInit))
	l.rotate(testSigner(2))
	for _, raw := range l.raw {
		keys := trusted(1)
		want, err := ParseEnvelope(raw)
		if err != nil {
			t.Fatal(err)
		}
		for i := range raw {
			for _, mask := range []byte{0x01, 0x20, 0x80} {
				bent := bytes.Clone(raw)
				bent[i] ^= mask
				got, err := Verify(bent, keys)
				if err == nil && !cmp.Equal(got, want.Statement) {
					t.Fatalf("byte %d ^ %#x: verifies as another statement", i, mask)
				}
				if err == nil {
					t.Errorf("byte %d ^ %#x (%q): still verifies", i, mask, bent[max(0, i-10):min(len(bent), i+10)])
				}
			}
		}
	}
}

package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The seeds are kilobytes long, and go test spends a minute to shorten each input
// that it finds interesting: run these with -fuzzminimizetime 1x.

// FuzzParseEnvelope: no input makes the parser panic, and only statements that were
// signed verify.
func FuzzParseEnvelope(f *testing.F) {
	genuine := map[string]bool{}
	for _, raw := range slices.Concat(story(f).raw, raceStory(f).raw) {
		f.Add(raw)
		e, err := ParseEnvelope(raw)
		if err != nil {
			f.Fatal(err)
		}
		if id, err := SignedBy(raw); err != nil || id != e.Statement.Place().KeyID {
			f.Fatalf("signed by %s, found %s (%v)", e.Statement.Place().KeyID, id, err)
		}
		genuine[string(e.Payload)] = true
	}
	f.Add([]byte(`{"payloadType":"application/vnd.in-toto+json","payload":"e30=","signatures":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := ParseEnvelope(raw)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("an error without its kind: %v", err)
			}
			return
		}
		if _, err := SignedBy(raw); err != nil {
			t.Fatalf("an envelope without the id of its key: %v", err)
		}
		if e.Verify(trusted(1, 2)) == nil && !genuine[string(e.Payload)] {
			t.Fatal("a statement that nobody signed verifies")
		}
	})
}

// FuzzParseStatement: what is accepted can be written, read again and says the same.
// It starts inside the base64 that hides the statement from FuzzParseEnvelope.
func FuzzParseStatement(f *testing.F) {
	for _, raw := range slices.Concat(story(f).raw, raceStory(f).raw) {
		e, err := ParseEnvelope(raw)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(e.Payload)
	}
	sameDocument := cmp.Comparer(func(a, b json.RawMessage) bool {
		return bytes.Equal(a, b) || compareDocuments(a, b) == nil
	})
	f.Fuzz(func(t *testing.T, payload []byte) {
		s, err := parseStatement(payload)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("an error without its kind: %v", err)
			}
			return
		}
		written, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseStatement(written)
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		if diff := cmp.Diff(s, again, sameDocument); diff != "" {
			t.Fatalf("round trip:\n%s", diff)
		}
		if r, ok := s.Predicate.(*Run); ok {
			if page := markdownOf(t, r); len(lines(page, "Decision:")) != 1 {
				t.Fatalf("forged page:\n%s", page)
			}
		}
	})
}

// FuzzParseBundle: as above, and what is read is written with the same bytes inside.
func FuzzParseBundle(f *testing.F) {
	b, _ := testBundle(f)
	f.Add(encodeBundle(f, b))
	f.Add(encodeBundle(f, Bundle{Receipt: b.Receipt}))
	f.Add([]byte(`{"bundle":"https://forkcell.dev/bundle/v1","receipt":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := ParseBundle(bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("an error without its kind: %v", err)
			}
			return
		}
		again, err := ParseBundle(bytes.NewReader(encodeBundle(t, b)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b, again); diff != "" {
			t.Fatalf("round trip:\n%s", diff)
		}
		if report, err := b.Verify(trusted(9)); err == nil {
			t.Fatalf("verifies with a key that signed nothing: %v", report)
		}
	})
}

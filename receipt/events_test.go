package receipt

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

const testEvents = `{"time":1,"metadata":{"sequence":1}}` + "\n" + `{"time":2,"metadata":{"sequence":2}}` + "\n"

// The hashes are fixed here, so that nobody changes the chain without noticing.
func TestEventChain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		journal string
		count   int64
		head    string
		bad     bool
	}{
		{"", 0, strings.Repeat("0", 64), false},
		{"\n", 1, "85a827501c1715203e190baa1fbb4ac8ce3632d69d88faeb404c276dd5af84f3", false},
		{testEvents, 2, "", false},
		{testEvents[:len(testEvents)-1], 1, "", true},
		{"x", 0, "", true},
	} {
		count, head, err := EventChain([]byte(c.journal))
		if count != c.count || (err != nil) != c.bad {
			t.Errorf("%q: %d events, %v", c.journal, count, err)
		}
		if c.head != "" && head != c.head {
			t.Errorf("%q: head %s", c.journal, head)
		}
	}
}

// eventful is a bundle whose receipt binds a journal.
func eventful(t *testing.T, want Events, journal string) Bundle {
	t.Helper()
	l := newTestLog(t)
	r := testRun(1)
	r.Events = want
	return Bundle{Receipt: l.add(r), Events: []byte(journal)}
}

func TestBundleEvents(t *testing.T) {
	t.Parallel()
	count, head, err := EventChain([]byte(testEvents))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(testEvents, "\n")
	for _, c := range []struct {
		name    string
		want    Events
		journal string
		state   State
		note    string
	}{
		{"all there", Events{Count: count, ChainHead: head}, testEvents, Verified, ""},
		{"left out", Events{Count: count, ChainHead: head}, "", NotIncluded, ""},
		{"a line changed", Events{Count: count, ChainHead: head}, strings.Replace(testEvents, "2", "3", 1), Mismatch, "another hash"},
		{"a line removed", Events{Count: count, ChainHead: head}, lines[0], Mismatch, "another hash"},
		{"a line appended", Events{Count: count, ChainHead: head}, testEvents + lines[0], Mismatch, "another hash"},
		{"lines swapped", Events{Count: count, ChainHead: head}, lines[1] + lines[0], Mismatch, "another hash"},
		{"cut in a line", Events{Count: count, ChainHead: head}, testEvents[:len(testEvents)-3], Mismatch, "incomplete"},
		{"another count", Events{Count: count + 1, ChainHead: head}, testEvents, Mismatch, "the receipt says 3"},
		{"an empty journal", Events{ChainHead: strings.Repeat("0", 64)}, "", Verified, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := eventful(t, c.want, c.journal)
			report, err := VerifyBundle(bytes.NewReader(encodeBundle(t, b)), trusted(1))
			if errors.Is(err, ErrChain) != (c.state == Mismatch) {
				t.Errorf("err = %v", err)
			}
			for _, check := range report.Checks {
				if check.Name != "events.chain_head" {
					continue
				}
				if check.State != c.state || !strings.Contains(check.Note, c.note) || check.SHA256 != c.want.ChainHead {
					t.Errorf("%+v", check)
				}
				return
			}
			t.Errorf("the events are passed over in silence: %+v", report.Checks)
		})
	}
}

// A receipt without events binds none.
func TestBundleUnboundEvents(t *testing.T) {
	t.Parallel()
	report, err := eventful(t, Events{}, testEvents).Verify(trusted(1))
	if !errors.Is(err, ErrChain) || states(report)["events"] != Mismatch {
		t.Errorf("err = %v, %+v", err, report.Checks)
	}
	report, err = eventful(t, Events{}, "").Verify(trusted(1))
	if _, told := states(report)["events"]; err != nil || told {
		t.Errorf("err = %v, %+v", err, report.Checks)
	}
}

// Whatever is put behind a journal changes its hash, or is noticed as a line
// that is not whole.
func FuzzEventChain(f *testing.F) {
	f.Add([]byte(testEvents), []byte("\n"))
	f.Add([]byte(""), []byte("x"))
	f.Fuzz(func(t *testing.T, journal, more []byte) {
		count, head, err := EventChain(journal)
		if err != nil || len(more) == 0 {
			return
		}
		longer, other, err := EventChain(append(bytes.Clone(journal), more...))
		if err == nil && (longer <= count || other == head) {
			t.Errorf("%d events with head %s, then %d with %s", count, head, longer, other)
		}
	})
}

package engine_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

// journal is the pattern of a run's journal, for file and find.
func journal(run string) string { return "events/*/" + run + ".jsonl" }

// linesOf changes a file line by line.
func linesOf(change func([][]byte) [][]byte) func([]byte) []byte {
	return func(data []byte) []byte { return bytes.Join(change(bytes.SplitAfter(data, []byte("\n"))), nil) }
}

// rewritten returns a valid journal with the same number of records.
func (p *past) rewritten(run string) func([]byte) []byte {
	return func(old []byte) []byte {
		p.Helper()
		name := filepath.Join(p.TempDir(), "journal")
		file, err := os.Create(name)
		p.ok(err)
		j, err := event.Create(file, event.Meta{Cell: "demo", Run: run}, event.Options{Window: -1, Now: time.Now})
		p.ok(err)
		for range bytes.Count(old, []byte("\n")) {
			p.ok(j.Append(event.Lifecycle(event.Subject{Message: "nothing happened"}, event.RunStarted)))
		}
		_, err = j.Seal()
		p.ok(err)
		data, err := os.ReadFile(name)
		p.ok(err)
		p.ok(file.Close())
		return data
	}
}

func (p *past) eventCases() []tampering {
	const log = "receipt verify"
	run := p.restored.RunID
	other, err := os.ReadFile(p.find(journal(p.accepted.RunID)))
	p.ok(err)
	at := func(do func([]byte) []byte) func() func() { return p.file(journal(run), do) }
	policy := "blobs/sha256/*/" + p.restored.PolicyHash
	return []tampering{
		{"a changed event", log, "events: the journal was changed", at(func(d []byte) []byte {
			return bytes.Replace(d, []byte("the run begins"), []byte("the run starts"), 1)
		})},
		{"a flipped bit", log, "events: ", at(flip(50))},
		{"the first event removed", log, "events: the journal was changed", at(linesOf(func(l [][]byte) [][]byte { return l[1:] }))},
		{"the last event removed", log, "records, the receipt says", at(linesOf(func(l [][]byte) [][]byte { return l[:len(l)-2] }))},
		{"an event appended", log, "events: the journal was changed", at(linesOf(func(l [][]byte) [][]byte { return append(l, l[0]) }))},
		{"two events swapped", log, "events: the journal was changed", at(linesOf(func(l [][]byte) [][]byte {
			l[1], l[2] = l[2], l[1]
			return l
		}))},
		{"a torn end", log, "incomplete", at(func(d []byte) []byte { return d[:len(d)-1] })},
		{"something behind the end", log, "events: the journal was changed", at(func(d []byte) []byte { return append(d, '{') })},
		{"an empty journal", log, "has 0 records", at(func([]byte) []byte { return []byte{} })},
		{"the journal of another run", log, "events: ", at(func([]byte) []byte { return other })},
		{"a journal written anew", log, "does not have the signed hash", at(p.rewritten(run))},
		{"a lost journal", log, "events: the journal is missing", at(nil)},
		{"a changed policy", log, "policy: its stored bytes were changed", p.file(policy, flip(50))},
		{"a cut policy", log, "policy: its stored bytes were changed", p.file(policy, func(d []byte) []byte { return d[:len(d)-1] })},
		{"a lost policy", log, "policy: its stored bytes are missing", p.file(policy, nil)},
	}
}

// TestTamperedEvents: a journal or a policy that differs from the signed one is
// found and named, and is put into no bundle.
func TestTamperedEvents(t *testing.T) {
	t.Parallel()
	p := newPast(t, "overlay")
	for i, c := range p.eventCases() {
		undo := c.do()
		p.found(c)
		out := filepath.Join(p.TempDir(), "bundle")
		_, err := p.e.ReceiptExport(p.ctx, p.restored.ReceiptID, out)
		if _, missing := os.Stat(out); (err == nil) != strings.HasPrefix(c.what, "a lost") || (missing == nil) != (err == nil) {
			t.Errorf("case %d, %s: export: %v", i, c.what, err)
		}
		if err != nil && api.KindOf(err) != api.Refused {
			t.Errorf("%s: export gave kind %s: %v", c.what, api.KindOf(err), err)
		}
		undo()
	}
	p.sound("demo")
}

// Each receipt by itself has its events and its policy checked.
func TestReceiptBindsEvents(t *testing.T) {
	t.Parallel()
	p := newPast(t, "overlay")
	res, err := p.e.ReceiptVerify(p.ctx, p.accepted.ReceiptID, "", false, "")
	p.ok(err)
	found := map[string]string{}
	for _, b := range res.Bound {
		found[b.What] = b.Status
	}
	if found["events"] != "verified" || found["policy"] != "verified" {
		t.Errorf("bound: %v", found)
	}
}

// TestBundleCarriesEvidence: a bundle has the policy and the events if they are
// small, and says what it lacks.
func TestBundleCarriesEvidence(t *testing.T) {
	t.Parallel()
	p := newPast(t, "overlay")
	state := func(name string) map[string]string {
		out := filepath.Join(p.TempDir(), name)
		_, err := p.e.ReceiptExport(p.ctx, p.accepted.ReceiptID, out)
		p.ok(err)
		res, err := p.e.BundleVerify(p.ctx, out, "")
		p.ok(err)
		found := map[string]string{}
		for _, b := range res.Bound {
			found[b.What] = b.Status
		}
		return found
	}
	all := state("all")
	for _, what := range []string{"policy_hash", "events.chain_head", "logs.stdout", "logs.stderr"} {
		if all[what] != "verified" {
			t.Errorf("%s is %q", what, all[what])
		}
	}
	undo := p.file(journal(p.accepted.RunID), nil)()
	if got := state("without")["events.chain_head"]; got != "not included" {
		t.Errorf("without the journal: %q", got)
	}
	undo()
	undo = p.file("blobs/sha256/*/"+p.accepted.PolicyHash, nil)()
	if got := state("bare")["policy_hash"]; got != "not included" {
		t.Errorf("without the policy: %q", got)
	}
	undo()
	p.sound("demo")
}

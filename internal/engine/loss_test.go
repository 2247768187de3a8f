package engine_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/front/local"
)

// lastStatement is the newest number that the database knows.
func (p *past) lastStatement() int {
	p.Helper()
	n, err := strconv.Atoi(p.sql("SELECT max(seq) FROM statements")[0])
	p.ok(err)
	return n
}

// statementFile is the file of a statement.
func (p *past) statementFile(seq int) string {
	return filepath.Join(p.home, "log/0000000", fmt.Sprintf("%010d.json", seq))
}

// verified checks that all of the home verifies, and returns the notes.
func (p *past) verified() []string {
	p.Helper()
	res, err := p.e.ReceiptVerify(p.ctx, "", "", true, "")
	if err != nil {
		p.Fatalf("%v: %+v", err, res)
	}
	return res.Notes
}

// TestAcceptedLossIsStated: a signed statement says what is lost, and the numbers
// of lost statements are not used again.
func TestAcceptedLossIsStated(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(p *past, last int) (says string){
		"the newest files of the log": func(p *past, last int) string {
			p.loseLog(3)
			return fmt.Sprintf("statements %d-%d; 2 checkpoints; 2 runs; ", last-2, last)
		},
		"the whole log": func(p *past, last int) string {
			p.loseLog(1000)
			return fmt.Sprintf("statements 1-%d; 1 cell; ", last)
		},
		"a statement in between": func(p *past, last int) string {
			p.ok(os.Remove(p.statementFile(2)))
			return "statement 2"
		},
		"a statement that is altered": func(p *past, _ int) string {
			p.ok(os.WriteFile(p.statementFile(2), []byte("no statement"), 0o600))
			return "statement 2"
		},
		"a statement in between, and the database": func(p *past, _ int) string {
			p.ok(os.Remove(p.statementFile(2)))
			p.loseDatabase()
			return "statement 2"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPast(t, "overlay")
			last := p.lastStatement()
			p.closeHome()
			says := fmt.Sprintf("given up by statement %d: %s", last+1, lose(p, last))
			_, _ = p.runRecover(false)
			res, err := p.runRecover(true)
			p.ok(err)
			if !strings.HasPrefix(strings.Join(res.Notes, "\n"), says) {
				t.Errorf("recover says %q, want %q", res.Notes, says)
			}
			p.reopen()
			if now := p.lastStatement(); now != last+1 {
				t.Errorf("the last statement is %d, want %d", now, last+1)
			}
			if notes := p.verified(); len(notes) != 1 || !strings.HasPrefix(notes[0], says) {
				t.Errorf("verify says %q, want %q", notes, says)
			}
			// The loss is settled: nothing is reported as lost any more, and no
			// second statement is made.
			for _, accept := range []bool{false, true} {
				res, err = p.runRecover(accept)
				p.ok(err)
				if len(res.Problems)+len(res.Notes) > 0 {
					t.Errorf("the next recover says %q, %q", res.Problems, res.Notes)
				}
			}
			p.reopen()
			if name != "the whole log" {
				p.sh("demo", "echo on > on")
			} else {
				p.init("demo", "overlay")
			}
			p.verified()
			p.loseDatabase()
			_, err = p.runRecover(false)
			p.ok(err)
			p.reopen()
			p.verified()
		})
	}
}

// TestLossIsSigned: without the key nothing is given up, and nothing is changed.
func TestLossIsSigned(t *testing.T) {
	t.Parallel()
	p := newPast(t, "overlay")
	p.loseLog(2)
	key := filepath.Join(p.home, "keys/signing.pem")
	p.ok(os.Rename(key, key+".away"))
	_, err := p.runRecover(true)
	p.refused(err, api.Refused, "key")
	p.ok(os.Rename(key+".away", key))
	res, err := p.runRecover(false)
	p.refused(err, api.Refused, "known to only one")
	if len(res.Kept) < 3 {
		t.Errorf("kept: %q", res.Kept)
	}
}

// copyFile copies a file as it is.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// TestRecoverWithoutTheNewestPages: a database that ended earlier than the log,
// because its write-ahead log is lost, counts as complete.
func TestRecoverWithoutTheNewestPages(t *testing.T) {
	t.Parallel()
	p := newPast(t, "overlay")
	p.closeHome()
	db := filepath.Join(p.home, "forkcell.db")
	p.ok(copyFile(db, db+".early"))
	p.reopen()
	p.sh("demo", "echo more > more", acceptOnSuccess)
	before, err := p.e.Status(p.ctx, "demo")
	p.ok(err)
	p.closeHome()
	p.ok(os.Rename(db+".early", db))
	for _, suffix := range []string{"-wal", "-shm"} {
		_ = os.Remove(db + suffix)
	}
	res, err := p.runRecover(false)
	p.ok(err)
	if len(res.Problems) > 0 || len(res.Notes) != 1 || !strings.HasPrefix(res.Notes[0], "the old database ended at statement ") {
		t.Errorf("problems %q, notes %q", res.Problems, res.Notes)
	}
	p.reopen()
	after, err := p.e.Status(p.ctx, "demo")
	p.ok(err)
	if before.Head != after.Head || before.Runs != after.Runs {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	p.wantInside("demo", "more", "more\n")
	p.verified()
}

// TestRecoverRemembersFreedStates: a state that gc has freed stays freed, also
// if its layer still exists because another state is based on it.
func TestRecoverRemembersFreedStates(t *testing.T) {
	t.Parallel()
	p := newPast(t, "overlay")
	_, err := p.e.Accept(p.ctx, api.AcceptRequest{Cell: "demo"})
	p.ok(err)
	p.init("other", "overlay")
	p.ok(p.e.RemoveAll(p.ctx, []string{"other"}, false))
	p.sh("demo", "echo top > top", acceptOnSuccess)
	freed, err := p.e.GC(p.ctx, api.GCRequest{})
	p.ok(err)
	if !slices.Contains(freed.Checkpoints, p.accepted.CheckpointAfter) {
		t.Fatalf("gc frees %q", freed.Checkpoints)
	}
	if _, err := os.Stat(filepath.Join(p.home, "layers", p.layerOf(p.accepted.CheckpointAfter))); err != nil {
		t.Fatalf("its layer is gone: %v", err)
	}
	res, err := p.runRecover(false)
	p.ok(err)
	if len(res.Problems)+len(res.Notes) > 0 || res.Cells != 1 || res.RemovedCells != 1 {
		t.Errorf("%+v", res)
	}
	p.reopen()
	_, err = p.e.Restore(p.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: p.accepted.CheckpointAfter})
	p.refused(err, api.Refused, "freed")
	again, err := p.e.GC(p.ctx, api.GCRequest{})
	p.ok(err)
	if len(again.Checkpoints) > 0 {
		t.Errorf("gc frees again: %q", again.Checkpoints)
	}
	p.verified()

	// Without the old database, states whose layers are gone are counted, not named.
	p.loseDatabase()
	if res, err = p.runRecover(false); err != nil || len(res.Problems) > 0 || len(res.Notes) != 1 {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestRecoverTwiceKeepsLayers: what one recovery kept, the next one keeps too.
func TestRecoverTwiceKeepsLayers(t *testing.T) {
	t.Parallel()
	p := newPast(t, "overlay")
	p.loseLog(2)
	p.loseDatabase()
	for range 2 {
		res, err := p.runRecover(false)
		p.refused(err, api.Refused, "known to only one")
		if len(res.Kept) != 1 || !strings.HasPrefix(res.Kept[0], "layer ") {
			t.Errorf("kept: %q", res.Kept)
		}
	}
	_, err := p.runRecover(true)
	p.ok(err)
	e, release, err := local.Open(p.home, local.Write, tester())
	p.ok(err)
	defer func() { p.ok(release()) }()
	got, err := e.GC(p.ctx, api.GCRequest{})
	p.ok(err)
	if len(got.Layers) == 0 {
		t.Error("gc frees nothing after the loss was accepted")
	}
}

// TestRecoverAfterARecoveryThatDied: the database that it had set aside is
// still used.
func TestRecoverAfterARecoveryThatDied(t *testing.T) {
	t.Parallel()
	p := newPast(t, "overlay")
	before, err := p.e.Status(p.ctx, "demo")
	p.ok(err)
	p.loseLog(2)
	p.closeHome()
	db := filepath.Join(p.home, "forkcell.db")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(db+suffix, db+".before-recover_00000000000000000000000000"+suffix); suffix == "" {
			p.ok(err)
		}
	}
	p.ok(os.WriteFile(db, nil, 0o600))
	res, err := p.runRecover(false)
	p.refused(err, api.Refused, "known to only one")
	if len(res.Kept) < 3 {
		t.Errorf("kept: %q", res.Kept)
	}
	p.kept(before)
}

// TestLostReceiptAcceptsNothing: work whose receipt is lost is applied only once
// it is accepted again.
func TestLostReceiptAcceptsNothing(t *testing.T) {
	t.Parallel()
	p := newPast(t, "overlay")
	p.sh("demo", "echo top > top")
	p.closeHome()
	p.ok(os.Remove(p.statementFile(4))) // of the pending run
	_, err := p.runRecover(true)
	p.ok(err)
	p.reopen()
	_, err = p.e.Apply(p.ctx, api.ApplyRequest{Cell: "demo"}) // of what was accepted before it
	p.ok(err)
	_, err = p.e.Apply(p.ctx, api.ApplyRequest{Cell: "demo"})
	p.refused(err, api.Refused, "is lost")
	if got := p.read("docs/a.md"); got != "a\n" {
		t.Errorf("the source has %q", got)
	}
	_, err = p.e.Accept(p.ctx, api.AcceptRequest{Cell: "demo"})
	p.ok(err)
	_, err = p.e.Apply(p.ctx, api.ApplyRequest{Cell: "demo"})
	p.ok(err)
	if got := p.read("docs/a.md"); got != "a\nlater\n" {
		t.Errorf("the source has %q", got)
	}
	p.verified()
}

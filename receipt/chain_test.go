package receipt

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

func TestChainHolds(t *testing.T) {
	t.Parallel()
	l := story(t)
	if problems := VerifyChain(l.all(), trusted(1)); len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	if problems := VerifyChain(sequence(nil), trusted(1)); len(problems) > 0 {
		t.Errorf("an empty log: %v", problems)
	}
	// A home trusts all keys that it ever had, and may have followed them before.
	keys := trusted(1, 2)
	if err := keys.Follow(l.raw[4]); err != nil {
		t.Fatal(err)
	}
	if problems := VerifyChain(l.all(), keys); len(problems) > 0 {
		t.Errorf("with keys that were followed before: %v", problems)
	}
}

func TestChainHead(t *testing.T) {
	t.Parallel()
	l := story(t)
	c := NewChain(trusted(1))
	for _, raw := range l.raw {
		if s, problems := c.Next(raw); len(problems) > 0 || s.Predicate == nil {
			t.Fatal(problems)
		}
	}
	seq, hash := c.Head()
	if seq != int64(len(l.raw)) || hash != Hash(l.raw[len(l.raw)-1]) {
		t.Errorf("head = %d %s", seq, hash)
	}
	if c.CellHead("cell_2") != Hash(l.raw[3]) || c.CellHead("cell_3") != "" {
		t.Error("the heads of the cells are wrong")
	}
}

func TestChainFinds(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		spoil func(l *testLog) [][]byte
		want  []string
	}{
		{"a statement taken out", func(l *testLog) [][]byte { return slices.Delete(l.raw, 2, 3) }, []string{"seq is 4 where 3 is due"}},
		{"prev of what follows", func(l *testLog) [][]byte { return slices.Delete(l.raw, 2, 3) }, []string{"(seq 4)", "prev is not"}},
		{"cell_prev of what follows", func(l *testLog) [][]byte { return slices.Delete(l.raw, 2, 3) }, []string{"rcpt_0002", "cell_prev"}},
		{"the first taken out", func(l *testLog) [][]byte { return l.raw[1:] }, []string{"seq is 2 where 1 is due"}},
		{"a statement twice", func(l *testLog) [][]byte { return slices.Insert(l.raw, 2, l.raw[1]) }, []string{"seq is 2 where 3 is due"}},
		{"two exchanged", func(l *testLog) [][]byte { l.raw[1], l.raw[2] = l.raw[2], l.raw[1]; return l.raw }, []string{"decides rcpt_0001, which does not stand before"}},
		{"not an envelope", func(l *testLog) [][]byte { l.raw[1] = []byte("{}"); return l.raw }, []string{"seq 2: malformed"}},
		{"a decision without its receipt", func(l *testLog) [][]byte { l.raw[1] = []byte("{}"); return l.raw }, []string{"dec_0001", "does not stand before"}},
		{"another payload", func(l *testLog) [][]byte {
			l.raw[1] = bytes.Replace(l.raw[1], []byte(`"sig":"`), []byte(`"sig":"AAAA`), 1)
			l.raw[1] = slices.Delete(l.raw[1], len(l.raw[1])-10, len(l.raw[1])-6)
			return l.raw
		}, []string{"seq 2", "malformed"}},
		{"a foreign key", func(l *testLog) [][]byte {
			l.signer = testSigner(9)
			l.add(testChange(OpCheckpoint))
			return l.raw
		}, []string{"cell_1 (seq 9)", "no signature by a trusted key"}},
		{"a retired key", func(l *testLog) [][]byte {
			l.signer = testSigner(1)
			l.add(testChange(OpCheckpoint))
			return l.raw
		}, []string{"seq 9", "replaced at seq 5"}},
		{"the old key comes back", func(l *testLog) [][]byte { l.rotate(testSigner(1)); return l.raw }, []string{"cannot come back"}},
		{"another home", func(l *testLog) [][]byte {
			c := testChange(OpCheckpoint)
			l.place(c, "cell_1", "demo")
			c.HomeID = "home_2"
			l.sign(c)
			return l.raw
		}, []string{"of home home_2"}},
		{"a receipt id twice", func(l *testLog) [][]byte { l.add(testRun(1)); return l.raw }, []string{"rcpt_0001 stands in the log before"}},
		{"a decision id twice", func(l *testLog) [][]byte {
			r := testRun(1)
			l.add(testDecision(1, r, l.raw[1]))
			return l.raw
		}, []string{"dec_0001 stands in the log before"}},
		{"a decision of another hash", func(l *testLog) [][]byte {
			l.add(testDecision(3, testRun(1), l.raw[0]))
			return l.raw
		}, []string{"dec_0003", "another hash"}},
		{"a decision of another run", func(l *testLog) [][]byte {
			d := testDecision(3, testRun(1), l.raw[1])
			d.RunID = "run_0002"
			l.add(d)
			return l.raw
		}, []string{"dec_0003", "another run or cell"}},
		{"supersedes what is not there", func(l *testLog) [][]byte {
			d := testDecision(3, testRun(1), l.raw[1])
			d.Supersedes = []string{"dec_9"}
			l.add(d)
			return l.raw
		}, []string{"supersedes dec_9"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wantProblem(t, VerifyChain(sequence(c.spoil(story(t))), trusted(1)), c.want...)
		})
	}
}

// One envelope that cannot be read is one problem of the log. What depends on it,
// like the cell_prev of its cell's next statement, is not held against the others.
func TestChainGoesOnAfterMissing(t *testing.T) {
	t.Parallel()
	l := story(t)
	problems := VerifyChain(func(yield func([]byte, error) bool) {
		for i, raw := range l.raw {
			if i == 6 && !yield(nil, errors.New("no such blob")) || i != 6 && !yield(raw, nil) {
				return
			}
		}
	}, trusted(1))
	wantProblem(t, problems, "seq 7: cannot be read: no such blob")
	if len(problems) != 1 {
		t.Errorf("problems: %v", problems)
	}
}

// An unsigned number must not make the checker lose its place.
func TestChainForgedSeq(t *testing.T) {
	t.Parallel()
	l := story(t)
	forged := newTestLog(t)
	forged.signer = testSigner(9)
	c := testChange(OpCheckpoint)
	forged.place(c, "cell_9", "demo")
	c.Of.ID, c.Seq, c.Prev = "cell_9", 1_000_000, sum(1)
	raw := forged.sign(c)
	chain := NewChain(trusted(1))
	for _, e := range slices.Insert(l.raw, 1, raw) {
		chain.Next(e)
	}
	if seq, _ := chain.Head(); seq > 10 {
		t.Errorf("seq = %d", seq)
	}
}

// TestDecisionOfAFork shows that a fork may decide about what it inherited, that no
// other cell may, and that the run's own decision stays as it was.
func TestDecisionOfAFork(t *testing.T) {
	t.Parallel()
	l := newTestLog(t)
	run := testRun(1)
	raw := l.add(run)
	fork := testChange(OpFork)
	fork.Of.ID, fork.Of.Name, fork.Of.ForkedFrom = "cell_2", "try", &Origin{CellID: "cell_1", Checkpoint: "chk_0001"}
	l.place(fork, "cell_2", "try")
	l.sign(fork)
	inFork := testDecision(1, run, raw)
	l.place(inFork, "cell_2", "try")
	l.sign(inFork)
	if problems := VerifyChain(l.all(), trusted(1)); len(problems) > 0 {
		t.Errorf("a fork's own decision: %v", problems)
	}
	if got := Present(run, []*Decision{inFork}); got.Result != Restored {
		t.Errorf("the decision of the run's own cell is %q", got.Result)
	}
	if got := DecisionsOfOthers(run, []*Decision{inFork}); len(got) != 1 || got[0].Cell != "try" {
		t.Errorf("elsewhere: %v", got)
	}

	stranger := testDecision(2, run, raw)
	l.place(stranger, "cell_3", "other")
	l.sign(stranger)
	problems := VerifyChain(l.all(), trusted(1))
	wantProblem(t, problems, "dec_0002", "another run or cell")
}

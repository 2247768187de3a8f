package receipt

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"
)

// testSigner is a fixed key, so that signatures are the same in every run.
func testSigner(n byte) *Signer {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return newSigner(seed)
}

func sum(n int) string { return Hash(fmt.Appendf(nil, "thing %d", n)) }

func testCheckpoint(n int) Checkpoint {
	c := Checkpoint{
		ID: fmt.Sprintf("chk_%04d", n), Layer: fmt.Sprintf("lay_%04d", n),
		Root: sum(10 * n), MetaRoot: sum(10*n + 1),
		Areas: map[string]Roots{
			"workspace": {sum(10 * n), sum(10*n + 1)},
			"home":      {sum(10*n + 2), sum(10*n + 3)},
		},
	}
	if n > 1 {
		c.Parent = fmt.Sprintf("chk_%04d", n-1)
	}
	return c
}

const (
	testStdout = "changed\n"
	testPolicy = "version: 1\n"
)

func testRun(n int) *Run {
	return &Run{
		ReceiptID: fmt.Sprintf("rcpt_%04d", n), RunID: fmt.Sprintf("run_%04d", n),
		CheckpointBefore: testCheckpoint(n).Ref(), CheckpointAfter: testCheckpoint(n + 1),
		ChangedFiles: 1, SplitLinks: []string{"a/b"},
		Command: []string{"sh", "-lc", "echo changed > hello.txt; exit 7"}, EnvNames: []string{"HOME", "PATH"},
		Workdir: "/work", ReadOnly: []string{"/opt/tools"},
		Outcome: Failed, ExitCode: 7,
		StartedAt: testTime(n), FinishedAt: testTime(n).Add(1500 * time.Microsecond),
		Timings:    map[string]int64{"command_us": 900, "total_us": 1500},
		PolicyHash: Hash([]byte(testPolicy)), Backend: "overlay", BackendReason: "the probe passed", Runtime: "native",
		Controls: Controls{
			Asked:    json.RawMessage(`{"network":"none"}`),
			Achieved: json.RawMessage(`{"landlock":"absent","namespaces":["user","mnt"],"n":1.50}`),
		},
		Degraded: []string{"limits"},
		Events:   Events{Count: 2, ChainHead: sum(7), ByAction: map[string]int64{"allowed": 1, "denied": 1}},
		Logs: []Log{
			{Stream: "stdout", SHA256: Hash([]byte(testStdout)), Bytes: int64(len(testStdout))},
			{Stream: "stderr", SHA256: sum(8), Bytes: 12, Truncated: true},
		},
		Decision: AutoDecision{Result: Restored, Automatic: true, Reason: "the command failed"}, DecisionID: fmt.Sprintf("dec_auto%d", n),
	}
}

func testDecision(n int, r *Run, receipt []byte) *Decision {
	return &Decision{
		DecisionID: fmt.Sprintf("dec_%04d", n), ReceiptID: r.ReceiptID, ReceiptSHA256: Hash(receipt), RunID: r.RunID,
		Result: Accepted, Forced: true, Reason: "looked at it",
		HeadBefore: r.CheckpointBefore, HeadAfter: r.CheckpointAfter,
		Only: []string{"*.md"}, Except: []string{"docs/"}, Supersedes: []string{r.DecisionID},
	}
}

func testChange(op Op) *Change {
	c := &Change{
		Op: op,
		Of: Cell{
			ID: "cell_1", Name: "demo", Source: "/src", Backend: "overlay", BackendReason: "the probe passed",
			Runtime: "native", MountAt: "/src", ReadOnly: []string{"/opt"}, LeftOutRules: []string{".env"},
		},
		Checkpoint: testCheckpoint(1),
		Names:      []string{"demo"},
		Details:    map[string]string{"files": "3"},
	}
	if op == OpFork {
		c.Of.ForkedFrom = &Origin{CellID: "cell_0", Checkpoint: "chk_0001"}
	}
	return c
}

func testTime(n int) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC).Add(time.Duration(n) * time.Second)
}

// testLog appends statements as a home does.
type testLog struct {
	tb     testing.TB
	signer *Signer
	raw    [][]byte
	cells  map[string]string
}

func newTestLog(tb testing.TB) *testLog {
	return &testLog{tb: tb, signer: testSigner(1), cells: map[string]string{}}
}

func (l *testLog) place(p Predicate, cellID, cell string) {
	at := p.Place()
	*at = Link{
		HomeID: "home_1", Seq: int64(len(l.raw) + 1), CellID: cellID, Cell: cell, CellPrev: l.cells[cellID],
		// The clock goes back at every step: order does not come from it.
		CreatedAt: testTime(-len(l.raw)), Actor: "uid 1000 (ada)",
	}
	if len(l.raw) > 0 {
		at.Prev = Hash(l.raw[len(l.raw)-1])
	}
}

func (l *testLog) add(p Predicate) []byte {
	l.tb.Helper()
	l.place(p, "cell_1", "demo")
	return l.sign(p)
}

func (l *testLog) sign(p Predicate) []byte {
	l.tb.Helper()
	raw, err := l.signer.Sign(p)
	if err != nil {
		l.tb.Fatal(err)
	}
	l.raw = append(l.raw, raw)
	l.cells[p.Place().CellID] = Hash(raw)
	return raw
}

func (l *testLog) rotate(next *Signer) []byte {
	l.tb.Helper()
	r := &Rotation{Reason: "yearly"}
	l.place(r, "", "")
	raw, err := SignRotation(r, l.signer, next)
	if err != nil {
		l.tb.Fatal(err)
	}
	l.raw = append(l.raw, raw)
	l.signer = next
	return raw
}

func (l *testLog) all() iter.Seq2[[]byte, error] { return sequence(l.raw) }

func sequence(raw [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, e := range raw {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// story is a log with every kind of statement.
func story(tb testing.TB) *testLog {
	l := newTestLog(tb)
	l.add(testChange(OpInit))
	r1 := testRun(1)
	e1 := l.add(r1)
	l.add(testDecision(1, r1, e1))
	fork := testChange(OpFork)
	fork.Of.ID, fork.Of.Name = "cell_2", "try"
	l.place(fork, "cell_2", "try")
	l.sign(fork)
	l.rotate(testSigner(2))
	r2 := testRun(2)
	r2.Decision, r2.DecisionID = AutoDecision{Result: Pending}, ""
	e2 := l.add(r2)
	d2 := testDecision(2, r2, e2)
	d2.Result, d2.Supersedes = Rejected, nil
	l.add(d2)
	l.add(testChange(OpRemove))
	return l
}

func trusted(n ...byte) *KeySet {
	k := NewKeySet()
	for _, b := range n {
		k.Trust(testSigner(b).Public())
	}
	return k
}

func wantProblem(t *testing.T, problems []Problem, parts ...string) {
	t.Helper()
	for _, p := range problems {
		found := true
		for _, part := range parts {
			found = found && strings.Contains(p.String(), part)
		}
		if found {
			return
		}
	}
	t.Errorf("no problem tells %q; there are: %v", parts, problems)
}

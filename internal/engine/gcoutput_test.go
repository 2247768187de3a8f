package engine_test

import (
	"io"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// stdoutOf reads the stored output of a run.
func (w *world) stdoutOf(name, run string) (string, error) {
	w.Helper()
	out, errs, err := w.e.Logs(w.ctx, name, run)
	if err != nil {
		return "", err
	}
	defer out.Close()
	defer errs.Close()
	text, err := io.ReadAll(out)
	return string(text), err
}

func (w *world) gc(req api.GCRequest) *api.GCResult {
	w.Helper()
	res, err := w.e.GC(w.ctx, req)
	w.ok(err)
	return res
}

// TestGCOutputs: gc frees old output, and that of removed cells. What another run has
// printed too stays, and so does the text of a policy that a command has printed.
// Receipts keep the digests, and everything still verifies.
func TestGCOutputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	w.init("gone", "")
	_, err := w.e.ApplyPolicy(w.ctx, "demo", *policyText("limits: {wall_time: 50s}\n"), nil)
	w.ok(err)
	policy, err := w.e.Policy(w.ctx, "demo")
	w.ok(err)
	same, _ := w.sh("demo", "echo same; echo errors >&2")
	printed, _ := w.sh("demo", "printf %s \"$POLICY\"", func(r *api.RunRequest) { r.Env = []string{"POLICY=" + string(policy.Text)} })
	other, _ := w.sh("gone", "echo same; yes | head -c 100000 >&2", under("limits: {wall_time: 40s}\n"))
	before, err := w.e.OwnBytes(w.ctx)
	w.ok(err)

	if res := w.gc(api.GCRequest{}); res.Outputs != 0 {
		t.Fatalf("recent output was freed: %+v", res)
	}
	w.ok(w.e.Remove(w.ctx, "gone", true))
	if res := w.gc(api.GCRequest{DryRun: true}); res.Outputs != 1 || res.Bytes < 100000 {
		t.Errorf("dry run: %+v", res)
	}
	if res := w.gc(api.GCRequest{}); res.Outputs != 1 || res.Bytes < 100000 {
		t.Errorf("the output of a removed cell: %+v", res)
	}
	w.sound("demo")
	if out, err := w.stdoutOf("demo", same.RunID); err != nil || out != "same\n" {
		t.Errorf("what another run has printed too: %q, %v", out, err)
	}
	if after, err := w.e.OwnBytes(w.ctx); err != nil || before-after < 100000 {
		t.Errorf("own bytes %d, and %d after: %v", before, after, err)
	}

	if res := w.gc(api.GCRequest{OutputOlderThan: -1}); res.Outputs != 2 {
		t.Errorf("all output: %+v", res)
	}
	for _, run := range []string{same.RunID, printed.RunID} {
		_, err := w.stdoutOf("demo", run)
		w.refused(err, api.Refused, "gc has freed the output of "+run)
	}
	w.sound("demo")
	if res, _ := w.sh("demo", "true"); res.PolicyHash != printed.PolicyHash {
		t.Errorf("the policy is another one: %+v", res)
	}
	if logs := w.receiptLogs(other.ReceiptID); len(logs) != 2 || logs[1].Bytes != 100000 {
		t.Errorf("the receipt of the removed cell: %+v", logs)
	}
}

// TestOutputCounts: what a run prints is space that its cell uses.
func TestOutputCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	before, err := w.e.OwnBytes(w.ctx)
	w.ok(err)
	w.sh("demo", "head -c 3000000 /dev/zero")
	after, err := w.e.OwnBytes(w.ctx)
	w.ok(err)
	if after-before < 3000000 {
		t.Errorf("own bytes grew by %d", after-before)
	}
}

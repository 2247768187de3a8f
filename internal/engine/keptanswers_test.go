package engine_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/forkcell/forkcell/internal/engine"
)

// TestKeptAnswersAreBounded: a caller cannot fill the home with answers that are kept. The
// oldest give way; their requests are still known.
func TestKeptAnswersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	const count, size, most = 20, 4 << 20, 64 << 20
	begin := func(i int) engine.KeyedRequest {
		return engine.KeyedRequest{Caller: w.e.Caller.Actor(), Route: "POST /v1/cells", Key: fmt.Sprint(i), Content: []byte("{}")}
	}
	answer := bytes.Repeat([]byte("x"), size)
	for i := range count {
		q, known, err := w.e.BeginRequest(w.ctx, begin(i))
		w.ok(err)
		if known {
			w.Fatalf("request %d was known", i)
		}
		w.ok(w.e.AnswerRequest(w.ctx, q.ID, answer))
	}
	if kept, err := w.e.AnswerBytes(); err != nil || kept > most || kept < most/2 {
		w.Errorf("%d bytes are kept, %v", kept, err)
	}
	for i, want := range map[int]string{0: engine.DroppedAnswer, count - 1: string(answer)} {
		q, known, err := w.e.BeginRequest(w.ctx, begin(i))
		w.ok(err)
		if !known || string(q.Answer) != want {
			w.Errorf("request %d: known %v, an answer of %d bytes", i, known, len(q.Answer))
		}
	}
}

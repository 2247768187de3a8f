package supervise

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/api"
)

// TestTranscript: a reader that continues where the last part ended gets every
// byte once and in order. Dropped bytes are counted.
func TestTranscript(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tr := newTranscript()
		var all []byte
		var at, skipped uint64
		var got []byte
		read := func() {
			part, err := tr.read(context.Background(), at, false)
			if err != nil {
				t.Fatal(err)
			}
			skipped += part.Skipped
			got = append(got, all[len(got):len(got)+int(part.Skipped)]...)
			for _, c := range part.Chunks {
				got = append(got, c.Data...)
			}
			at = part.Next
		}
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "write") {
				n := rapid.SampledFrom([]int{0, 1, 100, maxPart - 1, maxPart, maxPart + 1, 3 * maxPart}).Draw(t, "size")
				p := bytes.Repeat([]byte{byte(1 + len(all)%250)}, n)
				all = append(all, p...)
				tr.add(rapid.Bool().Draw(t, "stderr"), p)
			} else {
				read()
			}
		}
		tr.close()
		for {
			before := at
			read()
			if at == before {
				break
			}
		}
		if part, _ := tr.read(context.Background(), at, true); !part.Ended {
			t.Fatal("no end")
		}
		if !bytes.Equal(got, all) {
			t.Fatalf("%d bytes (%d skipped), want %d", len(got), skipped, len(all))
		}
		if tr.end-tr.start > maxTranscript {
			t.Fatalf("%d bytes are kept", tr.end-tr.start)
		}
	})
}

func TestTranscriptWaits(t *testing.T) {
	t.Parallel()
	tr := newTranscript()
	got := make(chan *outputPart, 1)
	go func() {
		part, _ := tr.read(context.Background(), 0, true)
		got <- part
	}()
	tr.add(true, []byte("x"))
	if part := <-got; len(part.Chunks) != 1 || !part.Chunks[0].Stderr || part.Next != 1 {
		t.Errorf("%+v", part)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.read(ctx, 1, true); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestErrorsCrossTheSocket(t *testing.T) {
	t.Parallel()
	for _, kind := range []api.Kind{api.Failed, api.Usage, api.NotFound, api.Refused, api.Busy} {
		in := &api.Error{Kind: kind, Code: "c", Message: "m", Hint: "h", Details: []string{"d"}}
		answer, err := EncodeAnswer(nil, in)
		if err != nil || !IsFailure(answer) {
			t.Fatal(string(answer), err)
		}
		_, err = DecodeAnswer(answer)
		var out *api.Error
		if !errors.As(err, &out) || out.Kind != kind || out.Code != "c" || out.Message != "m" || out.Hint != "h" || len(out.Details) != 1 {
			t.Errorf("%+v", out)
		}
	}
	answer, err := EncodeAnswer(&api.StartResult{Cell: "demo"}, nil)
	if err != nil || IsFailure(answer) {
		t.Error(string(answer), err)
	}
}

package cell

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"

	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/live"
)

// TestTranscript: whoever reads on from where the last part ended gets every
// byte once, in order, but for what was dropped, which is counted.
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

func TestPickSession(t *testing.T) {
	t.Parallel()
	list := []live.Session{{ID: "exec_1"}, {ID: "exec_12"}, {ID: "exec_2"}}
	for ref, want := range map[string]string{"exec_1": "exec_1", "exec_12": "exec_12", "exec_2": "exec_2", "exec_": "", "x": ""} {
		s, err := pick(list, "demo", ref)
		if s.ID != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", ref, s.ID, err)
		}
	}
}

// TestStartOrder sends an order to a supervisor and compares it byte for byte.
func TestStartOrder(t *testing.T) {
	t.Parallel()
	q := api.StartRequest{Cell: "demo", RunOptions: api.RunOptions{
		Env: []string{"A=\xff"}, Workdir: "\xfe", ReadOnly: []string{"/x"}, Timeout: 5e9, Wait: -1e9, Memory: 1, CPUs: 2, PIDs: 3,
		AllowDegraded: true, Policy: &api.PolicyFile{Name: "p", Text: []byte("version: 1\n")},
	}}
	p := policy.Default()
	p.Environment.Inherit = []string{"IN", "ABSENT"}
	e := New(Config{Home: "/home", Caller: Caller{
		Actor: func() string { return "tester" }, Env: []string{"IN=va=l\xffue", "OTHER=x", "PATH=/x"},
		Git: func() GitUser { return GitUser{Name: "A\xff", Email: "a@b"} }, Home: "/h\xff", Dir: "/d",
	}})
	data, err := e.encodeStart(q, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	order, err := DecodeStart(data)
	if err != nil || order.Home != "/home" {
		t.Fatal(order.Home, err)
	}
	if diff := cmp.Diff(q, order.Request); diff != "" {
		t.Error(diff)
	}
	c := order.Caller()
	if v, ok := c.lookupEnv("IN"); v != "va=l\xffue" || !ok {
		t.Errorf("inherited %q, %v", v, ok)
	}
	if _, ok := c.lookupEnv("OTHER"); ok {
		t.Error("something else is inherited")
	}
	if c.git() != e.caller.git() || c.Actor() != "tester" || c.Home != "/h\xff" || c.Dir != "/d" {
		t.Errorf("%+v", c)
	}
	if _, err := DecodeStart([]byte("{")); err == nil {
		t.Error("nonsense was understood")
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
		_, err = decodeAnswer(answer)
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

package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestLargeImport checks that a large directory is not imported without a word.
func TestLargeImport(t *testing.T) {
	t.Parallel()
	large := []api.Progress{{Files: 1, Bytes: largeImport}, {Files: 70_000, Bytes: 5 << 30}, {Files: 80_000, Bytes: 6 << 30}}
	want := "forkcell: x is large: 70,000 files and 5.0 GiB so far; --exclude PATTERN leaves things out\n"
	for _, args := range []string{"init a --from x", "init a --from x --json"} {
		_, _, stderr := call(t, &fakeEngine{imports: large}, strings.Fields(args)...)
		if strings.Count(stderr, want) != 1 {
			t.Errorf("%s: %s", args, stderr)
		}
	}
	for _, k := range []struct {
		args    string
		imports []api.Progress
	}{{"init a --from x --quiet", large}, {"init a --from x", large[:1]}} {
		if _, _, stderr := call(t, &fakeEngine{imports: k.imports}, strings.Fields(k.args)...); strings.Contains(stderr, "large") {
			t.Errorf("%s: %s", k.args, stderr)
		}
	}
}

// TestDeclinedImport checks that a large import ends when the person at the
// terminal does not want it.
func TestDeclinedImport(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "": false} {
		s := newSession(nil, Streams{In: strings.NewReader(answer), Out: &strings.Builder{}, Err: &strings.Builder{}}, "v")
		ctx, cancel := context.WithCancel(t.Context())
		ask := func(question string) (string, error) { return s.ask(ctx, question) }
		g := &largeGuard{session: s, from: "x", clear: func() {}, ask: ask, cancel: cancel}
		g.confirm("large")
		if g.declined == want || (ctx.Err() == nil) != want {
			t.Errorf("%q: declined %v, %v", answer, g.declined, ctx.Err())
		}
		cancel()
	}
}

package eventquery

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPosition(t *testing.T) {
	t.Parallel()
	p := position{through: 70, open: map[int64]mark{3: {tag: tagOf("run_a"), sequence: 1}, 69: {tag: tagOf("run_b")}, 70: {sequence: 1 << 40}}}
	text := p.text("stream")
	got, err := parsePosition("stream", text)
	if diff := cmp.Diff(p, got, cmp.AllowUnexported(position{}, mark{})); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for name, bad := range map[string]struct{ stream, text string }{
		"another stream": {"other", text},
		"none":           {"stream", ""},
		"no base64":      {"stream", "?" + text[1:]},
		"cut":            {"stream", text[:len(text)-2]},
		"changed":        {"stream", text[:4] + "x" + text[5:]},
		"longer":         {"stream", text + "AA"},
	} {
		if _, err := parsePosition(bad.stream, bad.text); !errors.Is(err, ErrPosition) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzPosition: a position that is taken has one text.
func FuzzPosition(f *testing.F) {
	f.Add(position{through: 1}.text(""))
	f.Add(position{through: 9, open: map[int64]mark{9: {tag: 7, sequence: 2}}}.text(""))
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePosition("", text)
		if err != nil {
			return
		}
		again, err := parsePosition("", p.text(""))
		if diff := cmp.Diff(p, again, cmp.AllowUnexported(position{}, mark{})); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	})
}

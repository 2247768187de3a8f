package capture_test

import (
	"bytes"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture"
)

// TestQuestion: only a whole message about a datagram to port 53 has a question.
func TestQuestion(t *testing.T) {
	t.Parallel()
	message := func(change func(b []byte)) []byte {
		b := make([]byte, 56, 64)
		b[0], b[20], b[21], b[28], b[37], b[51] = 0x45, 3, 3, 0x45, 17, 53
		change(b)
		return append(b, "query"...)
	}
	same := func([]byte) {}
	for _, c := range []struct {
		name    string
		message []byte
		want    string
	}{
		{"whole", message(same), "query"},
		{"empty", nil, ""},
		{"cut before the question", message(same)[:56], ""},
		{"cut in the headers", message(same)[:30], ""},
		{"options", message(func(b []byte) { b[0] = 0x46 }), ""},
		{"options of the datagram", message(func(b []byte) { b[28] = 0x4f }), ""},
		{"another protocol", message(func(b []byte) { b[37] = 6 }), ""},
		{"another port", message(func(b []byte) { b[51] = 54 }), ""},
	} {
		if got := capture.Question(c.message); !bytes.Equal(got, []byte(c.want)) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

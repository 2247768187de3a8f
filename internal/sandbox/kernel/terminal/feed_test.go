package terminal_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal"
)

// narrow takes some bytes and then fails.
type narrow struct {
	strings.Builder
	room int
}

func (n *narrow) Write(p []byte) (int, error) {
	if n.room < len(p) {
		return 0, errors.New("gone")
	}
	n.room -= len(p)
	return n.Builder.Write(p)
}

// TestFeed: the end of input is typed as a person would type it.
func TestFeed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		input []string
		room  int
		want  string
	}{
		"nothing":    {room: 9, want: "\x04"},
		"a line":     {input: []string{"one\n"}, room: 9, want: "one\n\x04"},
		"typed line": {input: []string{"one\r"}, room: 9, want: "one\r\x04"},
		"no line":    {input: []string{"o", "ne"}, room: 9, want: "one\x04\x04"},
		"empty last": {input: []string{"one", ""}, room: 9, want: "one\x04\x04"},
		"gone":       {input: []string{"one", "two\n"}, room: 4, want: "one"},
		"back again": {input: []string{"three\n", "one"}, room: 4, want: "one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := &narrow{room: c.room}
			terminal.Feed(to, func(w io.Writer) {
				for _, piece := range c.input {
					_, _ = io.WriteString(w, piece)
				}
			})
			if to.String() != c.want {
				t.Errorf("typed %q, want %q", to.String(), c.want)
			}
		})
	}
}

package wire

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execwire"
)

// Output that a client has refused does not keep the exit from it, however much
// there is.
func TestRefusedOutputIsSkipped(t *testing.T) {
	t.Parallel()
	s := newSession(Command{Args: []string{"x"}}, Options{}.withDefaults())
	a, err := s.attach(func() {}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.write(execwire.Stdout, make([]byte, 60<<10)); n != 60<<10 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := s.write(execwire.Stderr, []byte("seen")); err != nil {
		t.Fatal(err)
	}
	s.refuse(a, execwire.Stdout)
	if _, err := s.write(execwire.Stdout, []byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a write to a refused stream: %v", err)
	}
	s.end(Exit{Code: 3})
	var got bytes.Buffer
	s.pump(a, &got, nil, func() {})
	want := message(appendFrame(nil, execwire.Stderr, []byte("seen")), execwire.Exit, Exit{Code: 3})
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%q, want %q", got.Bytes(), want)
	}
}

func TestKeptArgs(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxKeptArgs)
	for _, c := range []struct {
		args []string
		n    int
		cut  bool
	}{
		{[]string{"a", ""}, 2, false},
		{[]string{long[1:]}, 1, false},
		{[]string{long[1:], ""}, 1, true},
		{[]string{"a", long}, 2, true},
		{make([]string, maxKeptArgs), maxKeptArgs, false},
		{make([]string, maxKeptArgs+1), maxKeptArgs, true},
	} {
		kept, cut := keepArgs(c.args)
		if len(kept) != c.n || cut != c.cut {
			t.Errorf("%d arguments: %d kept, cut %v", len(c.args), len(kept), cut)
		}
		// The largest still goes through the socket.
		if _, err := appendMessage(nil, execwire.Started, startAnswer{Session: newSessionMessage(Session{ID: "x", Args: kept})}); err != nil {
			t.Error(err)
		}
	}
}

// TestTypedIsReportedOnce: what a client types is reported when the command has ended,
// also if the client is still there, and not again when it leaves.
func TestTypedIsReportedOnce(t *testing.T) {
	t.Parallel()
	s := newSession(Command{Stdin: true}, Options{}.withDefaults())
	var reported []int
	a, err := s.attach(func() {}, api.KeyboardSend, func(bytes int) { reported = append(reported, bytes) })
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"bye", "\r"} {
		if err := s.feed(a, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	s.streams(Command{}).Ended()
	if !slices.Equal(reported, []int{4}) {
		t.Errorf("at the end of the command: %v", reported)
	}
	s.end(Exit{})
	s.leave(a)
	if len(reported) != 1 {
		t.Errorf("after the client has left: %v", reported)
	}
}

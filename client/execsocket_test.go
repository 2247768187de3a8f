package client_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forkcell/forkcell/client"
)

// waiter is output that a test waits for.
type waiter struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wants map[string]chan struct{}
}

func (w *waiter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.text.Write(p)
	for text, seen := range w.wants {
		if strings.Contains(w.text.String(), text) {
			close(seen)
			delete(w.wants, text)
		}
	}
	return n, err
}

// wait waits until the output has a text.
func (w *waiter) wait(t *testing.T, text string) {
	t.Helper()
	seen := make(chan struct{})
	w.mu.Lock()
	if w.wants == nil {
		w.wants = map[string]chan struct{}{}
	}
	w.wants[text] = seen
	w.mu.Unlock()
	_, _ = w.Write(nil) // it may have come
	select {
	case <-seen:
	case <-t.Context().Done():
		t.Fatalf("no %q in the output", text)
	}
}

// liveCell makes a live cell that stops with the test.
func liveCell(t *testing.T, name string) *client.Cell {
	t.Helper()
	cell := newCell(t, connect(t), name)
	if _, err := cell.Start(t.Context(), client.Start{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cell.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return cell
}

// TestExecSocket sends input that is larger than a message, and gets both streams.
func TestExecSocket(t *testing.T) {
	t.Parallel()
	cell := liveCell(t, "socket")
	var stdout, stderr bytes.Buffer
	s, err := cell.OpenExec(t.Context(), client.OpenExec{
		Command: client.Shell("cat; echo $WORD >&2; exit 3"), Env: map[string]string{"WORD": "oops"}, Workdir: "/tmp",
	}, client.Stdout(&stdout), client.Stderr(&stderr))
	if err != nil {
		t.Fatal(err)
	}
	input := strings.Repeat("0123456789", 100_000)
	if n, err := s.Write([]byte(input)); n != len(input) || err != nil {
		t.Fatal(n, err)
	}
	if err := s.CloseInput(); err != nil {
		t.Fatal(err)
	}
	exit, err := s.Wait()
	if err != nil || exit.ExitCode != 3 || exit.Signal != "" || stdout.String() != input || stderr.String() != "oops\n" {
		t.Errorf("%+v, %v, %d bytes, %q", exit, err, stdout.Len(), stderr.String())
	}
	if _, err := cell.OpenExec(t.Context(), client.OpenExec{Command: []string{"true"}, Timeout: "soon"}); !client.HasCode(err, "usage") {
		t.Error(err)
	}
}

// TestExecAttached closes the socket of a command that ends with it.
func TestExecAttached(t *testing.T) {
	t.Parallel()
	cell := liveCell(t, "attached")
	s, err := cell.OpenExec(t.Context(), client.OpenExec{Command: []string{"sleep", "1000"}, Attached: true})
	if err != nil {
		t.Fatal(err)
	}
	id := s.ID
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for runs := true; runs; {
		runs = slices.ContainsFunc(all(t, cell.Processes(t.Context())), func(p client.ProcessInfo) bool { return p.ExecID == id })
	}
}

// TestExecUnreadInput sends a signal to a command that does not read its input.
func TestExecUnreadInput(t *testing.T) {
	t.Parallel()
	cell := liveCell(t, "unread")
	var stdout waiter
	s, err := cell.OpenExec(t.Context(), client.OpenExec{Command: client.Shell("head -c 1000000 | wc -c; exec sleep 1000")}, client.Stdout(&stdout))
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := s.Write(make([]byte, 10_000_000))
		written <- err
	}()
	stdout.wait(t, "1000000") // the rest is not read
	if err := s.Signal("KILL"); err != nil {
		t.Fatal(err)
	}
	if exit, err := s.Wait(); err != nil || exit.Signal != "KILL" {
		t.Errorf("%+v, %v", exit, err)
	}
	if err := <-written; err == nil {
		t.Error("input that nobody read was taken")
	}
}

// TestExecTerminal resizes the terminal of a command, leaves it, joins it again, and
// ends it by a signal.
func TestExecTerminal(t *testing.T) {
	t.Parallel()
	cell := liveCell(t, "terminal")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var out, again waiter
	line := `trap 'stty size' WINCH; stty size; echo ready; while true; do read x && echo "got $x"; done`
	s, err := cell.OpenExec(ctx, client.OpenExec{Command: client.Shell(line), TTY: true, Cols: 80, Rows: 24}, client.Stdout(&out))
	if err != nil {
		t.Fatal(err)
	}
	out.wait(t, "24 80")
	out.wait(t, "ready")
	if err := s.Resize(100, 30); err != nil {
		t.Fatal(err)
	}
	out.wait(t, "30 100")
	leave()
	if _, err := s.Wait(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	joined, err := cell.Attach(t.Context(), s.ID, 0, 0, client.Stdout(&again))
	if err != nil {
		t.Fatal(err)
	}
	again.wait(t, "30 100") // replayed
	if _, err := joined.Write([]byte("one\n")); err != nil {
		t.Fatal(err)
	}
	again.wait(t, "got one")
	if err := joined.Signal("KILL"); err != nil {
		t.Fatal(err)
	}
	if exit, err := joined.Wait(); err != nil || exit.Signal != "KILL" {
		t.Errorf("%+v, %v", exit, err)
	}
	if _, err := cell.Attach(t.Context(), "none", 0, 0); !client.HasCode(err, "not_found") {
		t.Error(err)
	}
}

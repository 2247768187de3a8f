package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/document"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// governedRun is one run seen from the terminal: its streams, its signals, and the
// messages at its end.
type governedRun struct {
	session *frame
	opts    *runOptions
	request api.RunRequest
	signals *forwarder

	result *api.RunResult
	stdout *tail
	signal int
}

func (r *governedRun) do(ctx context.Context, e runner) error {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	r.signals.begin(kill)
	defer r.signals.end()
	stdio := engine.Stdio{Out: r.session.streams.Out, Err: r.session.streams.Err, Signals: r.signals.to}
	if r.session.json { // standard output has only the document
		stdio.Out = r.session.streams.Err
	}
	terminal := r.opts.terminal
	done := r.session.onScreen(&stdio, terminal.tty && terminal.interactive, terminal.raw)
	stdio.Ended = done
	defer func() { stdio.Ended() }()
	r.stdout = &tail{w: stdio.Out}
	stdio.Out = r.stdout
	if terminal.interactive {
		stdio.In = r.session.streams.In
	}
	if terminal.tty {
		restore, err := r.terminal(&stdio)
		if err != nil {
			return err
		}
		// After that Ctrl-C is a signal again.
		stdio.Ended = sync.OnceFunc(func() { done(); restore() })
	}
	var err error
	r.result, err = e.Run(ctx, r.request, stdio)
	r.signal = r.signals.signal()
	return err
}

func (r *governedRun) terminal(stdio *engine.Stdio) (restore func(), err error) {
	r.request.Term = os.Getenv("TERM")
	r.request.Size, restore, err = r.session.terminal(r.opts.terminal.interactive, stdio, r.signals)
	return restore, err
}

// terminal connects the caller's terminal, if there is one, to that of the cell:
// its size and changes of it and, if it is interactive, every key unprocessed.
func (s *frame) terminal(interactive bool, stdio *engine.Stdio, signals *forwarder) (size api.WindowSize, restore func(), err error) {
	size, restore = api.WindowSize{Rows: 24, Cols: 80}, func() {}
	fd, ok := terminal(s.streams.In)
	if !ok {
		if fd, ok = terminal(s.streams.Out); !ok {
			return size, restore, nil
		}
	}
	if real, err := windowSize(fd); err == nil {
		size = api.WindowSize(real)
	}
	sizes, stopSizes := watchSize(fd)
	stdio.Resize = sizes
	if in, isTerminal := terminal(s.streams.In); isTerminal && interactive {
		old, err := term.MakeRaw(in)
		if err != nil {
			stopSizes()
			return size, restore, fmt.Errorf("set the terminal to raw mode: %w", err)
		}
		keys, err := newKeyboard(in, signals.hangUp)
		if err != nil {
			_ = term.Restore(in, old)
			stopSizes()
			return size, restore, err
		}
		stdio.In = keys
		return size, func() {
			stopSizes()
			keys.close()
			_ = term.Restore(in, old)
		}, nil
	}
	return size, stopSizes, nil
}

func windowSize(fd int) (driver.WindowSize, error) {
	cols, rows, err := term.GetSize(fd)
	if err != nil {
		return driver.WindowSize{}, err
	}
	return driver.WindowSize{Rows: uint16(rows), Cols: uint16(cols)}, nil
}

// watchSize sends the terminal's new size at every change.
func watchSize(fd int) (<-chan driver.WindowSize, func()) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, unix.SIGWINCH)
	sizes := make(chan driver.WindowSize, 1)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-changed:
			}
			size, err := windowSize(fd)
			if err != nil {
				continue
			}
			select {
			case sizes <- size:
			case <-done:
				return
			}
		}
	}()
	return sizes, func() {
		signal.Stop(changed)
		close(done)
	}
}

// conclude reports how the run ended: the line for people, the result document, the
// exit code.
func (r *governedRun) conclude(err error) error {
	s := r.session
	if r.result == nil && err == nil {
		err = errors.New("the run gave no result")
	}
	s.code = exitOfRun(r.result, err, r.signal)
	if err != nil && r.result == nil && r.signal != 0 && errors.Is(err, context.Canceled) {
		err = errInterrupted // nothing was started
	}
	if r.result != nil && r.result.ReceiptID != "" {
		if err == nil {
			s.note(summary(r.result))
			s.note(deniedLine(r.result))
			s.note(unansweredLine(r.result.Unanswered))
			for _, n := range r.result.Notes {
				s.note(quote.Line(n))
			}
		}
		err = withReceipt(err, r.result.ReceiptID)
	}
	if s.code == exitNoCommand && r.result != nil && r.result.Error != "" {
		if line := whereOnHost(first(r.request.Args)); line != "" {
			s.note(line)
		}
	}
	doc := r.document(err)
	if s.json || r.opts.result == "-" {
		if !s.json && r.stdout != nil && r.stdout.midLine() {
			_, _ = io.WriteString(s.out, "\n")
		}
		err = joinErrors(err, document.Write(s.out, doc))
	}
	if r.opts.result == "" || r.opts.result == "-" {
		return err
	}
	if werr := writeResult(r.opts.result, doc); werr != nil {
		if s.code == exitDone {
			s.code = exitOwnFailure
		}
		return joinErrors(err, werr)
	}
	return err
}

// withReceipt adds the receipt of a failed run to the
// message about it.
func withReceipt(err error, id string) error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		return err
	}
	c := *e
	c.Message, c.Details = err.Error(), append(slices.Clone(c.Details), "receipt "+id)
	return &c
}

// resultDocument is the engine's result, with the error, if any, in the same form
// as for every command.
type resultDocument struct {
	*api.RunResult
	Error *errorBody `json:"error,omitempty"`
}

func (r *governedRun) document(err error) resultDocument {
	doc := resultDocument{RunResult: r.result}
	if doc.RunResult == nil {
		doc.RunResult = &api.RunResult{Cell: r.request.Cell, Outcome: "error", ExitCode: r.session.code}
	}
	switch {
	case err != nil:
		body := bodyOf(err)
		doc.Error = &body
	case doc.RunResult.Error != "":
		doc.Error = &errorBody{Kind: api.Failed, Code: api.CodeFailed, Message: doc.RunResult.Error}
	}
	return doc
}

// checkResult refuses a file for the result document that cannot be one, before
// anything runs.
func checkResult(cmd *cobra.Command, name string) error {
	if name == "" || name == "-" {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(name)); err != nil {
		return usageError("give a file in a directory that exists", "%s: --result %s: %v", verb(cmd), quote.Path(name), quote.Cause(err))
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return usageError("give a file", "%s: --result %s is a directory", verb(cmd), quote.Path(name))
	}
	return nil
}

// writeResult writes the document so that a reader sees all of it or nothing. A
// file that is not regular (a FIFO, a descriptor under /dev) is written to, and
// never replaced.
func writeResult(name string, doc resultDocument) error {
	var b strings.Builder
	if err := document.Write(&b, doc); err != nil {
		return resultFailed(name, err)
	}
	info, err := os.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return resultFailed(name, writeThrough(name, b.String()))
	}
	dir, err := fsx.OpenRoot(filepath.Dir(name))
	if err != nil {
		return resultFailed(name, err)
	}
	defer dir.Close()
	return resultFailed(name, fsx.WriteFile(dir, filepath.Base(name), []byte(b.String()), 0o644))
}

func writeThrough(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return joinErrors(err, f.Close())
}

func resultFailed(name string, err error) error {
	if err == nil {
		return nil
	}
	return &api.Error{
		Kind: api.Failed, Code: api.CodeResult, Err: err,
		Message: "write the result document " + quote.Path(name) + ": " + err.Error(),
	}
}

// tail passes a stream on unchanged and remembers its last byte, so that the result
// document can start on a new line.
type tail struct {
	w    io.Writer
	last byte
}

func (t *tail) Write(b []byte) (int, error) {
	n, err := t.w.Write(b)
	if n > 0 {
		t.last = b[n-1]
	}
	return n, err
}

func (t *tail) midLine() bool { return t.last != 0 && t.last != '\n' }

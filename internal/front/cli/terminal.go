package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// terminalFlags choose between a terminal and plain streams for a command in a
// cell.
type terminalFlags struct {
	interactive bool
	tty         bool
	none        bool
	raw         bool
}

// rawUsage describes --raw.
const rawUsage = "on a terminal, pass all that the command prints: also titles, clipboard writes, questions to the terminal"

func (o *terminalFlags) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&o.interactive, "interactive", "i", false, "pass stdin to the command (the default on a terminal)")
	f.BoolVarP(&o.tty, "tty", "t", false, "give the command a terminal (the default if stdin, stdout and stderr are one)")
	f.BoolVar(&o.raw, "raw", false, rawUsage)
	f.BoolVarP(&o.none, "no-tty", "T", false, "give the command no terminal, and stdin only with -i")
}

// resolve decides what the command gets. By default it gets a terminal and stdin if
// the caller is at a terminal, as with ssh.
func (o *terminalFlags) resolve(cmd *cobra.Command, s *frame) error {
	if err := exclusive(cmd, "tty", "no-tty"); err != nil {
		return err
	}
	if !o.none && !s.json && s.atTerminal() {
		o.interactive, o.tty = true, true
	}
	return nil
}

// atTerminal reports whether all three streams are a terminal, and this process is
// in its foreground.
func (s *frame) atTerminal() bool {
	in, ok := terminal(s.streams.In)
	for _, stream := range []any{s.streams.Out, s.streams.Err} {
		_, other := terminal(stream)
		ok = ok && other
	}
	if !ok {
		return false
	}
	group, err := unix.IoctlGetInt(in, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// onScreen keeps what a command prints to the screen where it goes to a terminal: it does
// not reach the clipboard, the title or the shell that follows. asks means that the
// command has the keyboard of the terminal. done ends what the command left on.
func (s *frame) onScreen(stdio *engine.Stdio, asks, raw bool) (done func()) {
	var screens []*quote.Screen
	if !raw {
		for _, w := range []*io.Writer{&stdio.Out, &stdio.Err} {
			if _, ok := terminal(*w); ok {
				screens = append(screens, quote.NewScreen(*w, asks))
				*w = screens[len(screens)-1]
			}
		}
	}
	return sync.OnceFunc(func() {
		for _, screen := range screens {
			_ = screen.Close() // a terminal that has gone needs nothing
		}
	})
}

// outputWriter returns a writer to w for stored output. If the stream is a terminal, it writes
// lines and colours only. Close ends the last colour, and leaves w open.
func (s *frame) outputWriter(stream any, w io.Writer, raw bool) io.WriteCloser {
	if _, ok := terminal(stream); !ok || raw {
		return nopCloser{w}
	}
	return quote.NewColours(w)
}

// nopCloser is a writer whose Close does nothing.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// keyboard is a terminal in raw mode as a command's input. The input ends only if
// the terminal has gone. Unlike a plain file it can be released, so that no reader
// is left to take the next key.
type keyboard struct {
	fd   int
	gone func()

	mu      sync.Mutex
	closed  bool
	quit    *os.File // readable when the keyboard is released
	release *os.File
}

func newKeyboard(fd int, gone func()) (*keyboard, error) {
	quit, release, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("read the terminal: %w", err)
	}
	return &keyboard{fd: fd, gone: gone, quit: quit, release: release}, nil
}

// Read waits for keys, or for the release.
func (k *keyboard) Read(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for !k.closed {
		ready := []unix.PollFd{{Fd: int32(k.fd), Events: unix.POLLIN}, {Fd: int32(k.quit.Fd()), Events: unix.POLLIN}}
		_, err := unix.Poll(ready, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || ready[1].Revents != 0 {
			return 0, io.EOF
		}
		n, err := unix.Read(k.fd, b)
		if n > 0 {
			return n, nil
		}
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		k.gone()
		return 0, io.EOF
	}
	return 0, io.EOF
}

// close ends a Read that waits, and every later one.
func (k *keyboard) close() {
	_ = k.release.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	_ = k.quit.Close()
}

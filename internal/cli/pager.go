package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"
)

// pager returns the command that output on a terminal goes through, or nil. An
// empty $PAGER, or cat, means none; so does a missing less.
func (s *session) pager() *exec.Cmd {
	if _, ok := terminal(s.streams.Out); !ok {
		return nil
	}
	if line, ok := os.LookupEnv("PAGER"); ok {
		line = strings.TrimSpace(line)
		if line == "" || line == "cat" {
			return nil
		}
		return exec.Command("sh", "-c", line) // as every program understands $PAGER
	}
	less, err := exec.LookPath("less")
	if err != nil {
		return nil
	}
	return exec.Command(less, "-FRX")
}

// paged writes long output: to a pager where there is one, else to stdout. A
// pager that was left early ends the output, and is no failure.
func (s *session) paged(write func(io.Writer) error) error {
	cmd := s.pager()
	if cmd == nil {
		return write(s.out)
	}
	cmd.Stdout, cmd.Stderr = s.streams.Out, s.streams.Err
	in, err := cmd.StdinPipe()
	if err != nil {
		return write(s.out)
	}
	defer forPager()()
	if err := cmd.Start(); err != nil {
		return write(s.out)
	}
	werr := write(in)
	_ = in.Close() // it is closed when the pager has gone
	err = cmd.Wait()
	switch {
	case werr != nil && !brokenPipe(werr):
		return werr
	case cmd.ProcessState.ExitCode() == exitNoCommand:
		return fmt.Errorf("show the output: $PAGER: %w", err)
	}
	return nil
}

// forPager leaves Ctrl-C to the pager: forkcell must not end before it and leave
// the terminal to two readers. It is called before the pager starts, and swallows
// the signals instead of ignoring them, which the pager would inherit. What it
// returns gives them their ordinary effect again.
func forPager() func() {
	signals := []os.Signal{unix.SIGINT, unix.SIGQUIT}
	signal.Reset(signals...) // nothing else hears them
	signal.Notify(make(chan os.Signal, 1), signals...)
	return func() { signal.Reset(signals...) }
}

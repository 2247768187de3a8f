package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/hosttool"
)

// pager returns the command that output on a terminal goes through, or nil. An
// empty $PAGER, or cat, means none; so does a missing less.
func (s *frame) pager() *exec.Cmd {
	if _, ok := terminal(s.streams.Out); !ok {
		return nil
	}
	if line, ok := os.LookupEnv("PAGER"); ok {
		line = strings.TrimSpace(line)
		if line == "" || line == "cat" {
			return nil
		}
		sh, err := hosttool.System().Look("sh")
		if err != nil {
			return nil
		}
		cmd := exec.Command(sh, "-c", line) // the usual meaning of $PAGER
		cmd.Env = s.hostTools().Env(os.Environ())
		return cmd
	}
	less, err := s.hostTools().Look("less")
	if err != nil {
		return nil
	}
	return exec.Command(less, "-FRX")
}

// pageOutput writes long output to a pager if there is one, or to stdout. A pager that
// ends early ends the output, and is no failure.
func (s *frame) pageOutput(write func(io.Writer) error) error {
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
	_ = in.Close() // fails if the pager has ended
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
// the terminal to two readers. It is called before the pager starts. It receives
// the signals instead of ignoring them, because the pager would inherit that. The
// returned function restores their ordinary effect.
func forPager() func() {
	signals := []os.Signal{unix.SIGINT, unix.SIGQUIT}
	signal.Reset(signals...) // no other receiver
	signal.Notify(make(chan os.Signal, 1), signals...)
	return func() { signal.Reset(signals...) }
}

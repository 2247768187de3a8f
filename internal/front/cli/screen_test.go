package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	ptys "github.com/forkcell/forkcell/internal/sandbox/kernel/terminal"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal/terminaltest"
)

// onTerminal runs a command line whose output and errors go to a terminal, and returns
// what the terminal got.
func onTerminal(t *testing.T, f *fakeEngine, args ...string) string {
	t.Helper()
	master, slave, err := terminaltest.Open()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(ptys.Output(master))
		seen <- string(text)
	}()
	t.Cleanup(func() { _ = master.Close() })
	code := Main(t.Context(), args, Streams{In: strings.NewReader(""), Out: slave, Err: slave}, f.open, Programs{}, "v0-test")
	if err := slave.Close(); err != nil || code != 0 {
		t.Fatal(code, err)
	}
	return <-seen
}

// TestOutputOnTerminal: what a command printed does not leave the screen, and what was
// stored does not move on it. --raw and other outputs get every byte.
func TestOutputOnTerminal(t *testing.T) {
	t.Parallel()
	const evil = "\x1b[31ma\x1b]52;c;ZXZpbA==\a\x1b]0;title\a\x1b[2J\x05\x1b[21tb\x1b[?1000h"
	const live = "\x1b[31ma\x1b[2Jb\x1b[?1000h\x1b[?1000l\x1b[0m"
	const stored = "\x1b[31ma" + `\x1b]52;c;ZXZpbA==\x1b]0;title\x1b[2J\x05\x1b[21tb\x1b[?1000h` + "\x1b[0m"
	session := api.ExecResult{}
	for line, want := range map[string]string{
		"run --quiet demo -- x":        live,
		"run --quiet --raw demo -- x":  evil,
		"exec demo -- x":               live,
		"exec --raw demo -- x":         evil,
		"shell demo":                   live,
		"shell --raw demo":             evil,
		"logs demo":                    stored,
		"logs --raw demo":              evil,
		"logs -f demo":                 stored,
		"logs -f --raw demo":           evil,
		"shell demo --attach exec_1":   live,
		"logs demo --run run_1":        stored,
		"run --quiet -T demo -- x":     live,
		"run --quiet --tty demo -- x":  live,
		"exec -T demo -- x":            live,
		"exec --tty --raw demo -- x":   evil,
		"exec --interactive demo -- x": live,
	} {
		f := &fakeEngine{output: evil, run: ended(), exec: &session}
		if strings.Contains(line, "-f") {
			f.followed = evil
		}
		if got := onTerminal(t, f, strings.Fields(line)...); got != want {
			t.Errorf("forkcell %s:\n got %q\nwant %q", line, got, want)
		}
	}
	for _, line := range []string{"run --quiet demo -- x", "exec demo -- x", "logs demo", "logs -f demo"} {
		f := &fakeEngine{output: evil, run: ended(), exec: &session}
		if strings.Contains(line, "-f") {
			f.followed = evil
		}
		if _, got, _ := call(t, f, strings.Fields(line)...); got != evil {
			t.Errorf("forkcell %s, to a file: %q", line, got)
		}
	}
}

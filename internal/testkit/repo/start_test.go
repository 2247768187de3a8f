package repo

import (
	"bytes"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestStartIsCheap holds that no package of the project does work at the start of every
// process that few of them need, such as compiling an expression or parsing a page. The
// whole program counts, too: a daemon starts it for each live cell.
func TestStartIsCheap(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func() (string, error){"lean": programs.lean, "whole": programs.whole} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkStart(t, program(t, build))
		})
	}
}

func checkStart(t *testing.T, binary string) {
	t.Helper()
	const most = 8 << 10 // bytes; one expression with a class of letters takes 170 KiB
	var trace bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, "version")
	cmd.Env, cmd.Stderr = []string{"GODEBUG=inittrace=1"}, &trace
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, trace.String())
	}
	own := 0
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) bytes`).FindAllStringSubmatch(trace.String(), -1) {
		if !strings.HasPrefix(m[1], "github.com/forkcell/forkcell/") {
			continue
		}
		own++
		if bytes, err := strconv.Atoi(m[2]); err != nil || bytes > most {
			t.Errorf("%s allocates %s bytes when it is initialised: do it at its first use, see sync.OnceValue", m[1], m[2])
		}
	}
	if own < 3 {
		t.Errorf("%d packages of the project in the trace:\n%s", own, trace.String())
	}
}

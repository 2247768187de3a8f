package repo

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestFirstProcessStartsEarly: the program that is started as a cell's first process
// takes over before the packages that the host's side needs are initialised.
func TestFirstProcessStartsEarly(t *testing.T) {
	t.Parallel()
	var trace bytes.Buffer
	// It has no control socket, so it ends as soon as it has started.
	cmd := exec.CommandContext(t.Context(), program(t, programs.whole))
	cmd.Args, cmd.Env, cmd.Stderr = []string{"forkcell-init"}, []string{"GODEBUG=inittrace=1"}, &trace
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v\n%s", err, trace.String())
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) @`).FindAllStringSubmatch(trace.String(), -1) {
		names = append(names, m[1])
	}
	all := "\n" + strings.Join(names, "\n") + "\n"
	if !strings.Contains(all, "\ngolang.org/x/sys/unix\n") {
		t.Fatalf("no trace of initialisations:\n%s", trace.String())
	}
	for _, late := range []string{"net", "net/", "vendor/", "modernc.org/sqlite", "go.yaml.in/", "github.com/miekg/dns", "github.com/spf13/", "regexp"} {
		if strings.Contains(all, "\n"+late) {
			t.Errorf("%s is initialised in every first process", late)
		}
	}
	// Packages are initialised in the order of their paths, as far as those are ready that
	// they import. Nothing that the first process imports is later than this one.
	if last := names[len(names)-1]; last != "golang.org/x/sys/unix" {
		t.Errorf("%d packages are initialised in every first process, the last one is %s", len(names), last)
	}
}

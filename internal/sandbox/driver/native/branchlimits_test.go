package native

import (
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/cgroup"
)

// TestBranchLimits: limits that no control group holds are put on the copy.
func TestBranchLimits(t *testing.T) {
	t.Parallel()
	needsInterpreter(t)
	n := New(Options{Cgroups: cgroup.Options{WithoutV1: true, WithoutV2: true}})
	w := newWarmTemplateOf(t, n, warmCommand("import resource\nserve()"), nil)
	b := driver.Branch{Spec: driver.Spec{ID: "branch", Command: driver.Command{Workdir: "/"}}}
	b.Limits.OpenFiles, b.Limits.PIDs, b.Limits.Memory, b.Guard.AllowDegraded = 40, 30, 1<<30, true
	c, err := w.Branch(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if limits := c.Controls().Limits; limits != "pids 30, open files 40" {
		t.Errorf("limits %q are claimed", limits)
	}
	for code, want := range map[string]string{
		"resource.getrlimit(resource.RLIMIT_NOFILE)": "(40, 40)",
		"resource.getrlimit(resource.RLIMIT_NPROC)":  "(30, 30)",
	} {
		if got := w.ask(c, code); got != want {
			t.Errorf("%s is %s instead of %s", code, got, want)
		}
	}
}

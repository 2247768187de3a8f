package native

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver/drivertest"
)

// The limits that the kernel counts for a user, by their names below /proc/sys/user and
// in /proc/self/limits: the most that a command has. Limits of one process or file are not
// among them, and that of processes is the policy's.
var (
	mostUser = map[string]int{
		"max_cgroup_namespaces": 0, "max_ipc_namespaces": 0, "max_mnt_namespaces": 64, "max_net_namespaces": 0,
		"max_pid_namespaces": 0, "max_time_namespaces": 0, "max_user_namespaces": 0, "max_uts_namespaces": 0,
		"max_fanotify_groups": 16, "max_fanotify_marks": 4096,
		"max_inotify_instances": 32, "max_inotify_watches": 32768,
	}
	mostResource = map[string]int{"Max pending signals": 4096, "Max msgqueue size": 256 << 10, "Max locked memory": 8 << 20}
	notOfAUser   = []string{
		"Max cpu time", "Max file size", "Max data size", "Max stack size", "Max core file size", "Max resident set", "Max processes",
		"Max open files", "Max address space", "Max file locks", "Max nice priority", "Max realtime priority", "Max realtime timeout",
	}
)

// showLimits prints every limit of a user: one that a newer kernel has is seen here.
const showLimits = `cd /proc/sys/user && for f in *; do read v < $f; echo "$f $v"; done; tail -n +2 /proc/self/limits`

// limitsAreSmall checks what showLimits has printed.
func limitsAreSmall(t *testing.T, out string, namespaces bool) {
	t.Helper()
	seen := 0
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 2 {
			most, known := mostUser[f[0]]
			if !namespaces && strings.HasSuffix(f[0], "_namespaces") {
				continue
			}
			if n, err := strconv.Atoi(f[1]); !known || err != nil || n > most {
				t.Errorf("%s: more than %d, or unknown", strings.TrimSpace(line), most)
			}
			seen++
			continue
		}
		name := strings.TrimSpace(line[:min(25, len(line))])
		if slices.Contains(notOfAUser, name) {
			continue
		}
		most, known := mostResource[name]
		for _, value := range strings.Fields(line[25:])[:2] {
			if n, err := strconv.Atoi(value); !known || err != nil || n > most {
				t.Errorf("%q: more than %d, or unknown", strings.TrimSpace(line), most)
			}
		}
		seen++
	}
	if seen < 5 {
		t.Errorf("%d limits in %q", seen, out)
	}
}

// TestLimitsOfAUser: a cell has small limits of its own for all that the kernel counts
// for a user, so that it cannot use up what its operator has elsewhere.
func TestLimitsOfAUser(t *testing.T) {
	limitsAreSmall(t, newFixture(t, Options{}).Shell(showLimits), true)
	t.Run("the cell's root", func(t *testing.T) {
		if !callerIdentity().Root {
			t.Skip("only root's cells have a root")
		}
		f := newFixture(t, Options{})
		f.Spec.AsRoot = true
		out := f.Shell(showLimits)
		limitsAreSmall(t, out, true)
		drivertest.Want(t, "raising", f.Shell("(ulimit -Hi 5000) 2>/dev/null || (echo 128 > /proc/sys/user/max_inotify_instances) 2>/dev/null || echo refused"), "refused")
	})
	t.Run("a template and a branch", func(t *testing.T) {
		needsInterpreter(t)
		show := "import subprocess\nshown = lambda: subprocess.run(['sh', '-c', '''" + showLimits + "'''], capture_output=True, text=True).stdout\nfirst = shown()\nserve()"
		c := newWarmTemplate(t, warmCommand(show)).branch(1)
		for expression, namespaces := range map[string]bool{"first": false, "shown()": true} {
			limitsAreSmall(t, strings.NewReplacer(`\n`, "\n", "'", "").Replace(warmTemplate{t, c.(*child).template}.ask(c, expression)), namespaces)
		}
	})
}

// TestInotifyInstances: a cell that takes all it can leaves instances to its operator.
func TestInotifyInstances(t *testing.T) {
	needsInterpreter(t)
	f := newFixture(t, Options{})
	out, errs, _, err := f.Try(nil, interpreter, "-c", `
import ctypes
libc, n = ctypes.CDLL(None), 0
while n < 4096 and libc.inotify_init() >= 0:
    n += 1
print(n)`)
	if err != nil {
		t.Fatal(err, errs)
	}
	drivertest.Want(t, "instances", strings.TrimSpace(out), "32")
}

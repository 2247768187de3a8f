package native

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// The places of the module at which hostile warm processes do something else.
const (
	forksCopy = `        if os.fork() == 0:`
	joins     = `        for name in _NAMESPACES:`
	joinsOne  = `            _check(_libc.setns(given[name], 0), f"join the {name} namespace")`
	begins    = `    os.setsid()`
	waits     = `        _, status = os.waitpid(middle, 0)`
)

// clonesWith makes a process with flags of clone(2), as fork does, which waits for ever.
func clonesWith(flags int) string {
	return fmt.Sprintf("_libc.syscall(56, %d, 0, 0, 0, 0) == 0 and signal.pause()\n", flags|int(unix.SIGCHLD))
}

// sharesMemory makes a process that waits for ever and a copy that share all memory, in
// spite of a filter that lets nobody share memory but threads and those whose parent
// waits: the parents that wait are killed. The parent of the copy is killed by the warm
// process, which sees it.
var sharesMemory = []string{
	joins, `        stack = _libc.mmap(None, 1 << 16, 3, 0x22, -1, 0) + (1 << 16) - 64
        _libc.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
        pause = ctypes.cast(_libc.pause, ctypes.c_void_p)
        threading.Thread(target=lambda: _libc.clone(pause, stack, 0x4100 | 17, None), daemon=True).start()
        while not any(open(f"/proc/self/task/{n}/children").read() for n in os.listdir("/proc/self/task")):
            pass
        parent = os.getpid()
        if _libc.syscall(56, 0x4100 | 17, 0, 0, 0, 0) < 0:
            os._exit(2)
        os.kill(parent, 9)
        while os.getppid() == parent:
            pass
` + joins,
	forksCopy, `        if _libc.syscall(56, 0x4100 | 17, 0, 0, 0, 0) == 0:`,
	waits, `        os.waitpid(middle, 0)
        status = 0
        waiting = True
        while waiting:
            for n in os.listdir("/proc"):
                if n.isdigit() and open(f"/proc/{n}/stat").read().rpartition(")")[2].split()[0] == "D":
                    os.kill(int(n), 9)
                    waiting = False`,
}

// TestCopyIsAlone has hostile templates whose copies share something with another
// process, or leave one in the cell. None is admitted, and the template is lost.
func TestCopyIsAlone(t *testing.T) {
	t.Parallel()
	for says, changes := range map[string][]string{
		"it shares memory with another process of the template": sharesMemory,
		"it shares its table of descriptors with another process of the template": {
			joins, "        " + clonesWith(unix.CLONE_FILES) + joins,
			forksCopy, `        if _libc.syscall(56, 0x400 | 17, 0, 0, 0, 0) == 0:`,
		},
		"it shares its root and working directory with another process of the template": {
			joinsOne, "            name == 'pid' and " + clonesWith(unix.CLONE_FS) + joinsOne,
			forksCopy, `        if _libc.syscall(56, 0x200 | 17, 0, 0, 0, 0) == 0:`,
		},
		"another process of the template is in its user namespace": {
			joinsOne, "            name == 'pid' and " + clonesWith(0) + joinsOne,
		},
		// One with every right, which the copy could let go on at any time.
		"it is not alone: another process": {
			begins, "    " + clonesWith(unix.CLONE_PARENT) + begins,
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			needsInterpreter(t)
			w := newWarmTemplateOf(t, New(Options{}), warmWith(changed(t, changes), "serve()"), nil)
			_, err := w.try(1, nil)
			if err == nil || !strings.Contains(err.Error(), says) || !errors.Is(err, driver.ErrNotConfined) {
				t.Fatalf("%v", err)
			}
			if _, err := w.try(2, nil); !errors.Is(err, driver.ErrNotWarm) {
				t.Errorf("another copy: %v", err)
			}
			if list, err := w.Processes(); err != nil || len(list) != 1 {
				t.Errorf("%d processes, %v: %+v", len(list), err, list)
			}
		})
	}
}

// TestTemplateSharesNoMemory: in a template and its branches, only threads and children
// whose parent waits share memory with others, whatever the policy allows.
func TestTemplateSharesNoMemory(t *testing.T) {
	t.Parallel()
	needsInterpreter(t)
	spec := driver.Spec{ID: "template", Template: true}
	spec.Guard.AllowSyscalls = []string{"clone", "clone3"}
	tmpl, err := startSpec(t.Context(), New(Options{}), spec, warmCommand(`
import ctypes, subprocess
libc = ctypes.CDLL(None, use_errno=True)
libc.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
stack = ctypes.create_string_buffer(1 << 16)
def denied():
    def number(call):
        return 0 if call() >= 0 else ctypes.get_errno()
    pause = ctypes.cast(libc.pause, ctypes.c_void_p)
    return [
        number(lambda: libc.clone(pause, ctypes.addressof(stack) + (1 << 15), 0x100 | 17, None)),
        number(lambda: libc.clone(pause, ctypes.addressof(stack) + (1 << 15), 0x900 | 17, None)),
        number(lambda: libc.syscall(435, None, 0)),
    ]
first = denied()
thread = threading.Thread(target=lambda: None)
thread.start()
thread.join()
assert subprocess.run(["true"], close_fds=False).returncode == 0
serve()`), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tmpl.Close() })
	w := warmTemplate{t, tmpl}
	c, want := w.branch(1), fmt.Sprint([]int{int(unix.EPERM), int(unix.EPERM), int(unix.ENOSYS)})
	for _, expression := range []string{"first", "denied()"} {
		if got := strings.ReplaceAll(w.ask(c, expression), ",", ""); got != want {
			t.Errorf("%s is %s instead of %s", expression, got, want)
		}
	}
}

// TestCopiesAreCompared: a copy is compared with the template's processes and with each
// copy that was admitted, by everything that clone(2) can share.
func TestCopiesAreCompared(t *testing.T) {
	t.Parallel()
	needsInterpreter(t)
	var shares atomic.Int32 // the process that everybody shares descriptors with
	var calls atomic.Int32
	n := New(Options{sameOf: func(a, b, kind int) (bool, error) {
		calls.Add(1)
		if kind == kcmpFiles && slices.Contains([]int{a, b}, int(shares.Load())) {
			return true, nil
		}
		return sameOf(a, b, kind)
	}})
	w := newWarmTemplateOf(t, n, warmCommand("serve()"), nil)
	one, before := w.branch(1), calls.Load()
	w.branch(2)
	// With the warm process and one other copy.
	if made := int(calls.Load() - before); made != 2*len(sharable) {
		t.Errorf("%d comparisons", made)
	}
	shares.Store(int32(one.(*child).copied.Load().pid))
	if _, err := w.try(3, nil); err == nil || !strings.Contains(err.Error(), "descriptors with another branch") {
		t.Errorf("%v", err)
	}
	if got := w.ask(one, "1 + 1"); got != "2" {
		t.Errorf("1 + 1 is %s in a branch that was made before", got)
	}
}

// TestTemplateNeedsKcmp: without the comparison no template starts.
func TestTemplateNeedsKcmp(t *testing.T) {
	t.Parallel()
	for want, answer := range map[string]error{"has no kcmp": unix.ENOSYS, "operation not permitted": unix.EPERM, "wrong answer": nil} {
		n := New(Options{sameOf: func(int, int, int) (bool, error) { return false, answer }})
		_, err := n.startTemplate(t.Context(), driver.Spec{ID: "template", Template: true})
		refused, ok := errors.AsType[*driver.UnenforceableError](err)
		if !ok || !strings.Contains(refused.Reason, want) || !strings.Contains(refused.Remedy, "CONFIG_KCMP") {
			t.Errorf("%v: %v", answer, err)
		}
	}
}

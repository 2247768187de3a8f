package native

import (
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/sdk/python"
)

// TestCopyIsChecked has warm processes that leave a control out, by replacements in
// the module.
func TestCopyIsChecked(t *testing.T) {
	t.Parallel()
	const (
		begin  = "    os.setsid()"
		said   = `        control.send({"type": "joined", "closed": closed})`
		serves = `    line.send({"type": "warm", "protocol": PROTOCOL})`
		enters = "        os.chdir(directory)"
		before = serves + "\n    global outside\n    outside = os.open('/', os.O_RDONLY)"
	)
	spec := driver.Spec{ID: "template", Template: true}
	spec.Guard.AllowSyscalls = []string{"chroot"} // else there is no way to another root
	for says, changes := range map[string][]string{
		"CapPrm is":                {"    _check(_libc.syscall(_SYS_CAPSET", "    0 and _check(_libc.syscall(_SYS_CAPSET"},
		"CapBnd is":                {"    while _check(_libc.prctl(_PR_CAPBSET_DROP", "    while 0 and _check(_libc.prctl(_PR_CAPBSET_DROP"},
		"Seccomp_filters is 1":     {"        fd = _libc.syscall(_SYS_SECCOMP", "        return -1\n        fd = _libc.syscall(_SYS_SECCOMP"},
		"not in the net namespace": {`        for name in _NAMESPACES:`, `        for name in [n for n in _NAMESPACES if n != "net"]:`},
		"not in the ipc namespace": {`        for name in _NAMESPACES:`, `        for name in [n for n in _NAMESPACES if n != "ipc"]:`},
		"its root is not the cell's": {
			serves, before, begin, begin + "\n    os.fchdir(outside)\n    os.chroot('.')", enters, "        pass",
			// Landlock denies it all files outside.
			"    null = os.open(os.devnull, os.O_RDWR)", `    null = given["stdout"]`,
			`    for fd in map(int, os.listdir("/proc/self/fd")):`, "    for fd in range(3, 64):",
		},
		"its working directory":        {serves, before, begin, begin + "\n    os.fchdir(outside)", enters, "        pass"},
		"it holds descriptor":          {"if fd > 2 and fd != keep:", "if False:"},
		"it shares memory":             {begin, "    import mmap\n    global held\n    held = mmap.mmap(-1, 4096)\n" + begin},
		"r--s":                         {begin, "    import mmap\n    global held\n    held = mmap.mmap(-1, 4096, prot=mmap.PROT_READ)\n" + begin},
		"it has no session":            {begin, "    pass"},
		"the cell has other processes": {begin, "    os.fork() or __import__('time').sleep(60)\n" + begin},
		"other processes":              {begin, "    os.fork() or (os.fork() and os._exit(0)) or __import__('time').sleep(60)\n" + begin},
		"Threads is 2":                 {begin, "    threading.Thread(target=lambda: __import__('time').sleep(60), daemon=True).start()\n" + begin},
		`said "ready" instead`:         {said, `        control.send({"type": "ready"})`},
		"the process has ended":        {said, `        os._exit(0)`},
		"malformed message":            {said, `        control.socket.sendall(b"\x01\x00\x00\x00x")`},
		"message of 4294967295 bytes":  {said, `        control.socket.sendall(b"\xff" * 8)`},
		"the copy could not be made":   {`        if os.fork() == 0:`, `        if os._exit(1) or os.fork() == 0:`},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			needsInterpreter(t)
			tmpl, err := startSpec(t.Context(), New(Options{}), spec, warmWith(changed(t, changes), "serve()"), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tmpl.Close() })
			w := warmTemplate{t, tmpl}
			_, err = w.try(1, nil)
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Fatalf("%v", err)
			}
			if list, err := w.Processes(); err != nil || len(list) != 2 {
				t.Errorf("%d processes, %v: %+v", len(list), err, list)
			}
		})
	}
}

// TestCopyMayReadSharedFiles: a mapping of a file that was opened for reading is no
// shared memory, as the caches of the C library are.
func TestCopyMayReadSharedFiles(t *testing.T) {
	t.Parallel()
	w := newWarmTemplate(t, warmCommand(`
import mmap
with open(os.__file__) as file:
    shared = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
serve()`))
	c := w.branch(1)
	if got := w.ask(c, "b'import' in shared[:]"); got != "True" {
		t.Error(got)
	}
}

// changed returns the module with replacements: what is replaced, and what by.
func changed(t *testing.T, changes []string) string {
	t.Helper()
	module := python.Warm
	for i := 0; i < len(changes); i += 2 {
		if strings.Count(module, changes[i]) != 1 {
			t.Fatalf("the module has %q %d times", changes[i], strings.Count(module, changes[i]))
		}
		module = strings.Replace(module, changes[i], changes[i+1], 1)
	}
	return module
}

// TestDescriptorsOfACopy: a file is known by its device and its number there.
func TestDescriptorsOfACopy(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), cmd.Wait() }()
	// One that answers has closed what it read to start.
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	check := copyCheck{pid: cmd.Process.Pid}
	names, err := filepath.Glob(check.file("fd/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil {
			t.Fatal(err)
		}
		check.allowed = append(check.allowed, fileID{st.Dev, st.Ino})
	}
	if err := check.descriptors(); err != nil {
		t.Error(err)
	}
	for i := range check.allowed {
		check.allowed[i].dev++
	}
	if err := check.descriptors(); err == nil || !strings.Contains(err.Error(), "it holds descriptor") {
		t.Errorf("files of another device: %v", err)
	}
}

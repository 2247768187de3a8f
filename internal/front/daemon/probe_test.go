package daemon_test

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lacksFreezer reports whether a live cell could not be captured because its
// processes cannot be frozen here.
func lacksFreezer(r reply) bool {
	return r.status == 422 && bytes.Contains(r.body, []byte(`"freezer"`))
}

// processExists reports whether there is a process with an id, also a dead one whose
// parent has not asked for its exit status.
func processExists(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// events returns the names of server-sent events, and the data of the last one.
func events(t *testing.T, body []byte) (names []string, last string) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			names = append(names, name)
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			last = data
		}
	}
	if len(names) == 0 {
		t.Fatalf("no events: %s", body)
	}
	return names, last
}

// usage counts what a process has open.
type usage struct{ goroutines, descriptors int }

// resources counts what this process has open, without files of databases: connections
// to them are made when they are needed, and their number is bounded.
func resources(t testing.TB) usage {
	t.Helper()
	const dir = "/proc/self/fd/"
	open, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	u := usage{goroutines: runtime.NumGoroutine()}
	for _, f := range open {
		if to, err := os.Readlink(dir + f.Name()); err == nil && !strings.Contains(filepath.Base(to), ".db") {
			u.descriptors++
		}
	}
	return u
}

// atRest waits until the daemon has as many first processes ready as it keeps, and
// counts what is open then: each of them holds descriptors.
func (d *testDaemon) atRest() usage {
	d.Helper()
	count := regexp.MustCompile(`(?m)^forkcell_pool_(?:ready|size) (\d+)$`)
	for limit := time.Now().Add(time.Minute); ; runtime.Gosched() {
		text := string(d.send("GET", "/metrics", nil).body)
		m := count.FindAllStringSubmatch(text, -1)
		if len(m) != 2 || time.Now().After(limit) {
			d.Fatal(text)
		}
		if m[0][1] == m[1][1] {
			return resources(d)
		}
	}
}

// settle waits until the process has no more open than before.
func (u usage) settle(t *testing.T) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; runtime.Gosched() {
		now := resources(t)
		if now.goroutines <= u.goroutines && now.descriptors <= u.descriptors {
			return
		}
		if time.Now().After(limit) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%+v, before %+v\n%s", now, u, buf[:runtime.Stack(buf, true)])
		}
	}
}

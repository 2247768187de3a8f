package full_test

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// processExists reports whether there is a process with an id, also a dead one whose
// parent has not asked for its exit status.
// lacksFreezer reports whether a live cell could not be captured because its
// processes cannot be frozen here.
func lacksFreezer(r reply) bool {
	return r.status == 422 && bytes.Contains(r.body, []byte(`"freezer"`))
}

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

func resources(t *testing.T) usage {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return usage{runtime.NumGoroutine(), len(open)}
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

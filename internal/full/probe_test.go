package full_test

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

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

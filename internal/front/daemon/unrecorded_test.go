package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// blockLog makes the next statement of the log impossible, until the returned function
// is called.
func (d *testDaemon) blockLog() (free func()) {
	d.Helper()
	dir := filepath.Join(d.home, "log", "0000000")
	list, err := os.ReadDir(dir)
	if err != nil {
		d.Fatal(err)
	}
	var last int
	if _, err := fmt.Sscanf(list[len(list)-1].Name(), "%d.json", &last); err != nil {
		d.Fatal(err)
	}
	file := filepath.Join(dir, fmt.Sprintf("%010d.json", last+1))
	if err := os.WriteFile(file, []byte("foreign\n"), 0o600); err != nil {
		d.Fatal(err)
	}
	return func() {
		if err := os.Remove(file); err != nil {
			d.Fatal(err)
		}
	}
}

// TestUnrecordedRun cannot record runs. Whatever form the answer has, it is a problem,
// and the next run finishes what was left.
func TestUnrecordedRun(t *testing.T) {
	t.Parallel()
	for name, header := range map[string][]string{"plain": nil, "key": {"Idempotency-Key", "k"}, "stream": {"Accept", "text/event-stream"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t)
			d.cell("demo")
			free := d.blockLog()
			r := d.send("POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sh", "-c", "echo changed > hello.txt"}}, header...)
			text := string(r.body)
			if name == "stream" {
				if r.status != 200 || !strings.Contains(text, "event: problem\n") || strings.Contains(text, "event: result\n") {
					t.Errorf("%d %s", r.status, text)
				}
			} else if r.status != 422 || r.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%d %s", r.status, text)
			}
			if !strings.Contains(text, `"code":"`+string(api.CodeHome)+`"`) || strings.Contains(text, d.home) {
				t.Errorf("%s", text)
			}
			free()
			var next api.RunAnswer
			d.want(200, &next, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"cat", "hello.txt"}})
			var runs api.List[api.RunInfo]
			d.want(200, &runs, "GET", "/v1/cells/demo/runs", nil)
			if len(runs.Items) != 2 || runs.Items[0].State != "ended" || next.Outcome != "succeeded" {
				t.Errorf("%+v", runs.Items)
			}
			d.verified()
		})
	}
}

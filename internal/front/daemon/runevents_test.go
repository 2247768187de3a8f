package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/front/local"
)

// repeaterName is the name of this program as one that makes a denied call again and
// again.
const repeaterName = "test-repeater"

func repeaterMain() int {
	runtime.LockOSThread() // an event names the thread: only those of one are repetitions
	for range 50 {
		fmt.Println(unix.Unshare(unix.CLONE_NEWUSER))
	}
	return 0
}

// streamed returns the events of a streamed run before its result, and its id.
func (d *testDaemon) streamed(name string, command ...string) (list []string, run string) {
	d.Helper()
	r := d.send("POST", "/v1/cells/"+name+"/runs", api.RunBody{Command: command}, "Accept", "text/event-stream")
	if r.status != 200 {
		d.Fatalf("%d %s", r.status, r.body)
	}
	blocks := strings.Split(strings.TrimSpace(string(r.body)), "\n\n")
	if last := blocks[len(blocks)-1]; !strings.HasPrefix(last, "event: result\n") {
		d.Errorf("the last event is %.100q", last)
	}
	for _, block := range blocks {
		name, data, _ := strings.Cut(block, "\ndata: ")
		if name == "event: event" {
			list = append(list, eventOf(d, []byte(data)))
		} else if name == "event: problem" {
			d.Error(data)
		}
	}
	run, _, _ = strings.Cut(list[0], " ")
	return list, run
}

// TestRunEvents: a streamed run has all of its events, in their order, before its
// result. Repetitions that were counted come before the end of the run, so that one
// who follows the events of the cell gets them too.
func TestRunEvents(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	program, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(d.source, repeaterName), program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.cell("demo")
	first := d.send("POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"true"}})
	if first.status != 200 {
		t.Fatalf("%s", first.body)
	}
	followed := d.tail("demo")
	got, run := d.streamed("demo", "./"+repeaterName)
	if diff := cmp.Diff(d.events("/v1/events?run="+run), got); diff != "" {
		t.Errorf("events in the stream: %s", diff)
	}
	if text := d.send("GET", "/v1/runs/"+run+"/events", nil).body; !bytes.Contains(text, []byte(`"count":`)) {
		t.Errorf("nothing was counted: %s", text)
	}
	if last := got[len(got)-1]; !strings.HasSuffix(last, fmt.Sprint(" ", int(event.AppLifecycle))) {
		t.Errorf("the last event is %s", last)
	}
	if diff := cmp.Diff(got, followed(run)); diff != "" {
		t.Errorf("one who follows: %s", diff)
	}
}

// TestRunEventsComeAtOnce: events arrive while the run goes on.
func TestRunEventsComeAtOnce(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	body := strings.NewReader(`{"command":["sleep","600"]}`)
	r, err := http.NewRequestWithContext(t.Context(), "POST", d.site+"/v1/cells/demo/runs", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	resp, err := d.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	var names []string
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			names = append(names, name)
		}
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		if isData && strings.Contains(data, `"the command was executed"`) {
			run, _, _ := strings.Cut(eventOf(t, []byte(data)), " ")
			d.want(202, nil, "POST", "/v1/runs/"+run+"/cancel", nil)
		}
	}
	want := []string{"started", "event", "event", "event", "event", "result"}
	if diff := cmp.Diff(want, names); diff != "" || lines.Err() != nil {
		t.Errorf("%v %s", lines.Err(), diff)
	}
}

// tail follows the events of a cell, as `events tail` does. The returned function
// waits until the end of a run, and returns its events.
func (d *testDaemon) tail(name string) func(run string) []string {
	d.Helper()
	e, release, err := local.Open(d.home, local.Read, caller.Caller{Actor: func() string { return "tester" }})
	if err != nil {
		d.Fatal(err)
	}
	begun, ended, list := make(chan struct{}), make(chan error, 1), []string(nil)
	enough := errors.New("enough")
	go func() {
		ended <- errors.Join(e.FollowEvents(context.WithoutCancel(d.Context()), name, 1, func(rec event.Record) error {
			if list = append(list, eventOf(d.TB, rec.Raw)); len(list) == 1 {
				close(begun) // the last event of the run before
				return nil
			}
			if rec.Class == event.AppLifecycle && len(list) > 2 {
				return enough
			}
			return nil
		}), release())
	}()
	<-begun
	return func(string) []string {
		if err := <-ended; !errors.Is(err, enough) {
			d.Error(err)
		}
		return list[1:]
	}
}

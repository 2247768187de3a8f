package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// eventLine has the fields of an event that identify it.
type eventLine struct {
	Class    int `json:"class_uid"`
	Metadata struct {
		Sequence int    `json:"sequence"`
		Run      string `json:"correlation_uid"`
	} `json:"metadata"`
}

func (e eventLine) String() string {
	return fmt.Sprintf("%s %d %d", e.Metadata.Run, e.Metadata.Sequence, e.Class)
}

func eventOf(t testing.TB, text []byte) string {
	t.Helper()
	var e eventLine
	if err := json.Unmarshal(text, &e); err != nil || e.Metadata.Run == "" {
		t.Fatalf("%v: %s", err, text)
	}
	return e.String()
}

// events asks for events without following them.
func (d *testDaemon) events(query string) (list []string) {
	d.Helper()
	r := d.send("GET", query, nil)
	if r.status != 200 || r.header.Get("Content-Type") != "application/jsonl" {
		d.Fatalf("%s: %d %s %s", query, r.status, r.header, r.body)
	}
	for line := range bytes.Lines(r.body) {
		list = append(list, eventOf(d, line))
	}
	return list
}

// eventReader reads a stream of server-sent events.
type eventReader struct {
	testing.TB
	body   io.Closer
	lines  *bufio.Reader
	cancel context.CancelFunc
	id     string
}

// openEvents follows events after the id, or from now on with "".
func (d *testDaemon) openEvents(query, id string) (*eventReader, error) {
	d.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(d.Context()))
	req, err := http.NewRequestWithContext(ctx, "GET", d.site+query, nil)
	if err != nil {
		d.Fatal(err)
	}
	if id != "" {
		req.Header.Set("Last-Event-ID", id)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		text, _ := io.ReadAll(resp.Body)
		d.Fatalf("%s: %s %s", query, resp.Status, text)
	}
	return &eventReader{TB: d.TB, body: resp.Body, lines: bufio.NewReader(resp.Body), cancel: cancel, id: id}, nil
}

func (r *eventReader) close() { r.cancel(); _ = r.body.Close() }

// next returns the next event. A block without data only has an id: it returns "".
func (r *eventReader) next() (string, error) {
	id, data := "", ""
	for {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			return "", err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			id = value
		case "data":
			data = value
		case "event":
			if value != "event" {
				r.Errorf("event %q", value)
			}
		case "":
			if id == "" {
				continue // the end of a comment
			}
			r.id = id
			if data == "" {
				return "", nil
			}
			return eventOf(r, []byte(data)), nil
		}
	}
}

func TestEventQueries(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	d.cell("other")
	var run, second api.RunAnswer
	d.want(200, &run, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sh", "-c", "echo out; echo err >&2"}})
	d.want(200, &second, "POST", "/v1/cells/other/runs", api.RunBody{Command: []string{"true"}})
	all := d.events("/v1/events")
	if len(all) != 8 {
		t.Errorf("%q", all)
	}
	for query, want := range map[string][]string{
		"/v1/events?cell=demo":                                all[:4],
		"/v1/events?run=" + second.RunID:                      all[4:],
		"/v1/events?cell=demo&run=" + run.RunID:               all[:4],
		"/v1/runs/" + run.RunID + "/events":                   all[:4],
		"/v1/cells/demo/runs/" + run.RunID + "/events":        all[:4],
		"/v1/events?class=6002&cell=demo":                     {all[0], all[3]},
		"/v1/events?class=application_lifecycle&cell=demo":    {all[0], all[3]},
		"/v1/events?action=denied":                            nil,
		"/v1/events?since=1h":                                 all,
		"/v1/events?since=2100-01-01T00:00:00Z":               nil,
		"/v1/runs/" + second.RunID + "/events?class=1007":     all[5:7],
		"/v1/runs/" + second.RunID + "/events?action=allowed": all[4:],
	} {
		if got := d.events(query); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for query, status := range map[string]int{
		"/v1/events?cell=nosuch": 404, "/v1/events?run=run_nosuch": 404, "/v1/runs/run_nosuch/events": 404,
		"/v1/cells/other/runs/" + run.RunID + "/events": 404, "/v1/runs/run_nosuch/logs": 404,
		"/v1/events?follow=true&cell=nosuch": 404, "/v1/events?follow=true&run=run_nosuch": 404,
		"/v1/events?class=none": 400, "/v1/events?since=soon": 400, "/v1/events?action=maybe": 400, "/v1/events?unknown=1": 400,
		"/v1/runs/" + run.RunID + "/logs?stream=third": 400,
	} {
		if r := d.send("GET", query, nil); r.status != status {
			t.Errorf("%s: status %d, want %d: %s", query, r.status, status, r.body)
		}
	}
	d.problem(400, api.CodeUsage, "GET", "/v1/events?follow=true", nil, "Last-Event-ID", "nosuch")
	d.problem(400, api.CodeUsage, "GET", "/v1/events", nil, "Last-Event-ID", "nosuch")
	for query, want := range map[string]string{"": "out\n", "?stream=stdout": "out\n", "?stream=stderr": "err\n", "?follow=true": "out\n"} {
		if r := d.send("GET", "/v1/runs/"+run.RunID+"/logs"+query, nil); string(r.body) != want {
			t.Errorf("logs%s: %d %s", query, r.status, r.body)
		}
	}
}

// TestEventIDsBelongToTheirQuery: a position of one query does not fit another.
func TestEventIDsBelongToTheirQuery(t *testing.T) {
	t.Parallel()
	d, foreign := newDaemon(t), newDaemon(t)
	d.cell("demo")
	r, err := d.openEvents("/v1/events?follow=true", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if first, err := r.next(); first != "" || err != nil || r.id == "" {
		t.Fatalf("the stream does not begin with an id: %q %v", first, err)
	}
	d.problem(400, api.CodeUsage, "GET", "/v1/events?follow=true&cell=demo", nil, "Last-Event-ID", r.id)
	d.problem(400, api.CodeUsage, "GET", "/v1/events?follow=true&class=6002", nil, "Last-Event-ID", r.id)
	foreign.problem(400, api.CodeUsage, "GET", "/v1/events?follow=true", nil, "Last-Event-ID", r.id)
}

// TestEventsUnderPrefix: a token that is bound to a prefix gets nothing of other
// cells.
func TestEventsUnderPrefix(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("a-demo")
	d.cell("b-demo")
	mine := d.token(api.TokenBody{Name: "a", Scopes: []string{"run"}, Cells: "a-"})
	r, err := mine.openEvents("/v1/events?follow=true", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	var theirs, own api.RunAnswer
	d.want(200, &theirs, "POST", "/v1/cells/b-demo/runs", api.RunBody{Command: []string{"echo", "b"}})
	d.want(200, &own, "POST", "/v1/cells/a-demo/runs", api.RunBody{Command: []string{"echo", "a"}})
	want := d.events("/v1/events?cell=a-demo")
	if got := mine.events("/v1/events"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	var got []string
	for len(got) < len(want) {
		e, err := r.next()
		if err != nil {
			t.Fatal(err)
		}
		if e != "" {
			got = append(got, e)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, path := range []string{
		"/v1/events?cell=b-demo", "/v1/events?run=" + theirs.RunID, "/v1/runs/" + theirs.RunID + "/events", "/v1/runs/" + theirs.RunID + "/logs",
		"/v1/events?follow=true&run=" + theirs.RunID, "/v1/cells/a-demo/runs/" + theirs.RunID + "/logs",
	} {
		mine.problem(404, api.CodeNotFound, "GET", path, nil)
	}
}

// TestFollowRunEvents: the stream of one run ends with the run.
func TestFollowRunEvents(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	var started api.RunStarted
	d.want(202, &started, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sh", "-c", "echo one; exec sleep 1000"}}, "Prefer", "respond-async")
	logs := d.followLogs("/v1/cells/demo/runs/" + started.RunID + "/logs?follow=true")
	if line, err := logs.ReadString('\n'); line != "one\n" || err != nil {
		t.Fatalf("%q %v", line, err)
	}
	if r := d.send("GET", "/v1/runs/"+started.RunID+"/logs", nil); string(r.body) != "one\n" {
		t.Errorf("so far: %s", r.body)
	}
	r, err := d.openEvents("/v1/runs/"+started.RunID+"/events?follow=true", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if _, err := r.next(); err != nil {
		t.Fatal(err)
	}
	d.want(202, nil, "POST", "/v1/runs/"+started.RunID+"/cancel", nil)
	var got []string
	for {
		e, err := r.next()
		if err != nil {
			break
		}
		got = append(got, e)
	}
	if want := d.events("/v1/runs/" + started.RunID + "/events")[2:]; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if rest, err := io.ReadAll(logs); len(rest) > 0 || err != nil {
		t.Errorf("%q %v", rest, err)
	}
}

// followLogs reads an answer as it comes.
func (d *testDaemon) followLogs(path string) *bufio.Reader {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), "GET", d.site+path, nil)
	if err != nil {
		d.Fatal(err)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/octet-stream" {
		text, _ := io.ReadAll(resp.Body)
		d.Fatalf("%s %s", resp.Status, text)
	}
	return bufio.NewReader(resp.Body)
}

// TestEventsOnce follows the events of many runs with clients that disconnect and
// resume at random, while the daemon is killed and started again. Each gets each
// event exactly once, and those of a run in their order.
func TestEventsOnce(t *testing.T) {
	t.Parallel()
	const cells, perCell, kills = 4, 8, 3
	seed := rand.Uint64()
	t.Log("seed", seed)
	d := &daemonProcess{testDaemon: newDaemon(t)}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d.launch()
	defer func() { d.kill() }()
	for i := range cells {
		d.cell(fmt.Sprintf("c%d", i))
	}
	queries := []string{"/v1/events?follow=true", "/v1/events?follow=true&cell=c1", "/v1/events?follow=true&class=1007"}
	seen := make([]*collector, len(queries))
	var readers, runs sync.WaitGroup
	for i, q := range queries {
		seen[i] = d.collect(q, rand.New(rand.NewPCG(seed, uint64(i))))
		readers.Go(seen[i].follow)
		<-seen[i].begun
	}
	var restart sync.RWMutex // held for writing while the daemon is restarted
	for i := range cells {
		runs.Go(func() {
			for n := range perCell {
				key := fmt.Sprintf("%d-%d", i, n)
				for !d.tryRun(&restart, fmt.Sprintf("c%d", i), key) {
				}
			}
		})
	}
	for range kills {
		<-seen[0].some
		d.kill()
		restart.Lock()
		d.launch()
		restart.Unlock()
	}
	runs.Wait()
	for i, q := range queries {
		seen[i].finish(d.events(strings.ReplaceAll(strings.ReplaceAll(q, "follow=true&", ""), "follow=true", "")))
	}
	readers.Wait()
}

// tryRun runs a command, and reports whether it was answered.
func (d *daemonProcess) tryRun(restart *sync.RWMutex, name, key string) bool {
	restart.RLock()
	restart.RUnlock() //nolint:staticcheck // it waits until the daemon runs again
	req, err := http.NewRequestWithContext(d.Context(), "POST", "http://localhost/v1/cells/"+name+"/runs", strings.NewReader(`{"command":["sh","-c","unshare -U true; true"]}`))
	if err != nil {
		return true
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := d.client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == 200
}

// collector is a client that counts events.
type collector struct {
	d      *daemonProcess
	query  string
	random *rand.Rand
	begun  chan struct{} // is closed when the stream has begun
	some   chan struct{} // gets a value after some events

	mu     sync.Mutex
	got    map[string]int
	want   []string // nil until all events are known
	reader *eventReader
}

func (d *daemonProcess) collect(query string, random *rand.Rand) *collector {
	return &collector{d: d, query: query, random: random, begun: make(chan struct{}), some: make(chan struct{}, 100), got: map[string]int{}}
}

// finish tells the collector which events there are.
func (c *collector) finish(want []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.want = append([]string{}, want...)
	if c.whole() && c.reader != nil {
		c.reader.close()
	}
}

func (c *collector) whole() bool { return c.want != nil && len(c.got) >= len(c.want) }

// follow reads events and disconnects at random, until it has all of them.
func (c *collector) follow() {
	id, order := "", map[string]int{}
	for {
		r, err := c.d.openEvents(c.query, id)
		if err != nil {
			continue // the daemon is being started again
		}
		c.mu.Lock()
		c.reader = r
		done := c.whole()
		c.mu.Unlock()
		for range 1 + c.random.IntN(12) {
			if done {
				break
			}
			e, err := r.next()
			if err != nil {
				break
			}
			if id == "" {
				close(c.begun)
			}
			id = r.id
			done = c.take(e, order)
		}
		r.close()
		c.mu.Lock()
		done = c.whole()
		c.mu.Unlock()
		if done {
			c.compare()
			return
		}
	}
}

// take counts an event, and reports whether it was the last.
func (c *collector) take(e string, order map[string]int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e == "" {
		return c.whole()
	}
	var run string
	var n int
	if _, err := fmt.Sscan(e, &run, &n); err != nil || n <= order[run] {
		c.d.Errorf("%s: %s after %d: %v", c.query, e, order[run], err)
	}
	order[run] = n
	if c.got[e]++; len(c.got)%20 == 0 {
		c.some <- struct{}{}
	}
	return c.whole()
}

func (c *collector) compare() {
	slices.Sort(c.want)
	if all := slices.Sorted(maps.Keys(c.got)); !slices.Equal(all, c.want) {
		c.d.Errorf("%s: %d events, want %d", c.query, len(all), len(c.want))
	}
	for e, n := range c.got {
		if n != 1 {
			c.d.Errorf("%s: %s came %d times", c.query, e, n)
		}
	}
}

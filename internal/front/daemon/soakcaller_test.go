package daemon_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/forkcell/forkcell/internal/api"
)

// soakCaller is one caller. It has cells of its own, which are gone after each action.
type soakCaller struct {
	*soak
	name   string
	random *rand.Rand
	count  int
}

// act does one thing.
func (c *soakCaller) act() {
	c.count++
	actions := []struct {
		name string
		do   func(cell string)
	}{
		{"run", c.runs},
		{"fork", c.forks},
		{"live", c.lives},
		{"sockets", c.sockets},
		{"events", c.follows},
		{"race", c.races},
		{"expiry", c.expires},
		{"token", c.revokes},
		{"disconnect", c.disconnects},
		{"cancel", c.cancels},
		{"malformed", c.malformed},
		{"watch", c.watches},
	}
	a := actions[c.random.IntN(len(actions))]
	c.mu.Lock()
	c.actions[a.name]++
	c.mu.Unlock()
	a.do(fmt.Sprintf("%s-%d", c.name, c.count))
}

// runs makes a cell, runs in it, decides and removes it.
func (c *soakCaller) runs(cell string) {
	at := "/v1/cells/" + cell
	c.want(201, nil, "POST", "/v1/cells", api.CreateCell{
		Name: cell, Source: &api.Source{Path: c.source}, CellSettings: api.CellSettings{Labels: map[string]string{"caller": c.name}, TTL: "1h"},
	})
	var ran api.RunAnswer
	c.want(200, &ran, "POST", at+"/runs", api.RunBody{Command: []string{"sh", "-c", "echo change > new; echo out; echo err >&2"}}, "Idempotency-Key", cell)
	c.want(200, nil, "GET", at+"/diff", nil)
	if c.random.IntN(2) == 0 {
		c.want(200, nil, "POST", at+"/accept", api.AcceptRequest{Run: ran.RunID})
	} else {
		c.want(200, nil, "POST", at+"/restore", api.RestoreRequest{Run: ran.RunID})
	}
	c.want(200, nil, "POST", at+"/runs", api.RunBody{Command: []string{"false"}, RestoreOnFail: true})
	c.want(200, nil, "GET", "/v1/cells?label=caller="+c.name, nil)
	c.want(200, nil, "GET", "/v1/events?cell="+cell, nil)
	c.want(204, nil, "DELETE", at+"?force=true", nil)
}

// forks forks the base, and runs in each fork with streamed output.
func (c *soakCaller) forks(cell string) {
	c.want(201, nil, "POST", "/v1/cells/base/fork", api.ForkBody{Name: cell, N: 2})
	for i := 1; i <= 2; i++ {
		at := fmt.Sprintf("/v1/cells/%s-%d", cell, i)
		r := c.send("POST", at+"/runs", api.RunBody{Command: []string{"sh", "-c", "seq 1000"}}, "Accept", "text/event-stream")
		if !strings.Contains(string(r.body), `"outcome":"succeeded"`) {
			c.Errorf("%s: %d %s", at, r.status, r.body)
		}
		c.want(204, nil, "DELETE", at+"?force=true", nil)
	}
}

// start makes a live cell; the returned function removes it.
func (c *soakCaller) start(cell string) (at string, remove func()) {
	c.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: cell, Source: &api.Source{Path: c.source}})
	at = "/v1/cells/" + cell
	var started api.StartResult
	c.want(200, &started, "POST", at+"/start", nil)
	c.mu.Lock()
	c.supervisors = append(c.supervisors, newStarted(started.PID))
	c.mu.Unlock()
	return at, func() { c.want(204, nil, "DELETE", at+"?force=true", nil) }
}

// lives uses a live cell and its files.
func (c *soakCaller) lives(cell string) {
	at, remove := c.start(cell)
	defer remove()
	files := at + "/files"
	c.want(200, nil, "PUT", files+"?path=dir/new", strings.Repeat("x", c.random.IntN(200_000)), "Content-Type", "application/octet-stream")
	c.want(200, nil, "GET", files+"?path=hello.txt", nil, "Accept", "application/octet-stream")
	c.want(200, nil, "GET", files+"?path=dir/new", nil)
	c.want(200, nil, "POST", files+"/list", api.ListFilesRequest{Depth: 2})
	c.want(200, nil, "POST", at+"/exec", api.ExecBody{Command: []string{"sh", "-c", "cat dir/new | wc -c"}})
	if r := c.send("POST", at+"/pause", nil); r.status == 200 { // not every user has a freezer
		c.want(409, nil, "POST", at+"/exec", api.ExecBody{Command: []string{"true"}})
		c.want(200, nil, "POST", at+"/resume", nil)
		c.want(201, nil, "POST", at+"/checkpoints", nil)
	}
	c.want(204, nil, "DELETE", files+"?path=dir&recursive=true", nil)
	if c.random.IntN(2) == 0 {
		c.want(200, nil, "POST", at+"/stop", api.StopBody{Grace: "0s"})
	}
}

// sockets opens WebSockets of commands and drops them.
func (c *soakCaller) sockets(cell string) {
	at, remove := c.start(cell)
	defer remove()
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		path := at + "/exec?tty=true&cols=80&rows=24&command=sh&command=-c&command=" + url.QueryEscape("echo ready; cat")
		conn, _, err := websocket.Dial(ctx, "ws://localhost"+path, &websocket.DialOptions{HTTPClient: c.client, Subprotocols: []string{execProtocol}})
		if err != nil {
			c.Error(err)
		} else if _, _, err := conn.Read(ctx); err != nil {
			c.Error(err)
		}
		if err == nil {
			_ = conn.CloseNow()
		}
		cancel()
	}
}

// follows follows the events of a run, and leaves in the middle.
func (c *soakCaller) follows(cell string) {
	c.want(201, nil, "POST", "/v1/cells/base/fork", api.ForkBody{Name: cell})
	events, err := c.openEvents("/v1/events?follow=true&cell="+cell, "")
	if err != nil {
		c.Error(err)
		return
	}
	defer events.close()
	c.want(200, nil, "POST", "/v1/cells/"+cell+"/runs", api.RunBody{Command: []string{"true"}})
	for text := ""; text == ""; {
		if text, err = events.next(); err != nil {
			c.Error(err)
			return
		}
	}
	c.want(204, nil, "DELETE", "/v1/cells/"+cell+"?force=true", nil)
}

// races races two commands.
func (c *soakCaller) races(cell string) {
	c.want(201, nil, "POST", "/v1/cells/base/fork", api.ForkBody{Name: cell})
	var res api.RaceResult
	c.want(200, &res, "POST", "/v1/race", api.RaceBody{
		Cell: cell, Judge: []string{"test", "-e", "good"}, Accept: true,
		Attempts: []api.RaceAttemptBody{{Command: []string{"false"}}, {Command: []string{"touch", "good"}}},
	})
	if res.Winner == nil || *res.Winner != 2 {
		c.Errorf("%+v", res)
	}
	c.want(204, nil, "DELETE", "/v1/cells/"+cell+"?force=true", nil)
}

// expires lets the daemon remove a live cell when its time is up.
func (c *soakCaller) expires(cell string) {
	// The limit comes later: on a busy machine the cell would expire before it starts.
	at, _ := c.start(cell)
	ttl, removed := "1s", "remove"
	c.want(200, nil, "PATCH", at, api.UpdateBody{TTL: &ttl, OnTimeout: &removed})
	for limit := time.Now().Add(time.Minute); ; {
		r := c.send("GET", at, nil)
		if r.status == http.StatusNotFound {
			return
		}
		if time.Now().After(limit) {
			c.Errorf("%s: %d %s", at, r.status, r.body)
			return
		}
		<-time.After(soakPause)
	}
}

// revokes revokes a token while a run streams to its caller.
func (c *soakCaller) revokes(cell string) {
	c.want(201, nil, "POST", "/v1/cells/base/fork", api.ForkBody{Name: cell})
	var made api.TokenCreated
	c.want(201, &made, "POST", "/v1/tokens", api.TokenBody{Name: cell, Scopes: []string{"run"}, Cells: cell})
	guest := c.remote(made.Token)
	body := c.stream(guest, cell, "echo ready; sleep 1000")
	if body == nil {
		return
	}
	defer body.Close()
	c.want(204, nil, "DELETE", "/v1/tokens/"+cell, nil)
	if rest, err := io.ReadAll(body); err != nil || !strings.Contains(string(rest), `"outcome":"interrupted"`) {
		c.Errorf("%s, %v", rest, err)
	}
	guest.problem(401, api.CodeUnauthenticated, "GET", "/v1/cells/"+cell, nil)
	c.drop(cell)
}

// stream begins a run that streams, and returns its answer after the first output.
func (c *soakCaller) stream(d *testDaemon, cell, script string) io.ReadCloser {
	req, err := http.NewRequest("POST", d.site+"/v1/cells/"+cell+"/runs", strings.NewReader(fmt.Sprintf(`{"command":["sh","-c",%q]}`, script)))
	if err != nil {
		c.Error(err)
		return nil
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := d.client.Do(req)
	if err != nil {
		c.Error(err)
		return nil
	}
	for seen := ""; !strings.Contains(seen, "event: stdout"); {
		buf := make([]byte, 4096)
		n, err := resp.Body.Read(buf)
		if seen += string(buf[:n]); err != nil {
			c.Errorf("%s: %v", seen, err)
			_ = resp.Body.Close()
			return nil
		}
	}
	return resp.Body
}

// disconnects leaves a run that streams, which ends it.
func (c *soakCaller) disconnects(cell string) {
	c.want(201, nil, "POST", "/v1/cells/base/fork", api.ForkBody{Name: cell})
	body := c.stream(c.testDaemon, cell, "echo ready; sleep 1000")
	if body == nil {
		return
	}
	_ = body.Close()
	c.ended(cell, "interrupted")
	c.drop(cell)
}

// drop removes a cell whose run was interrupted. The run is recorded before the cell is
// free.
func (c *soakCaller) drop(cell string) {
	for limit := time.Now().Add(time.Minute); ; {
		r := c.send("DELETE", "/v1/cells/"+cell+"?force=true", nil)
		if r.status == http.StatusNoContent {
			return
		}
		if r.status != http.StatusConflict || time.Now().After(limit) {
			c.Errorf("%s: %d %s", cell, r.status, r.body)
			return
		}
		<-time.After(soakPause / 10)
	}
}

// ended waits until the last run of a cell has ended.
func (c *soakCaller) ended(cell, outcome string) {
	for limit := time.Now().Add(time.Minute); ; {
		var runs api.List[api.RunInfo]
		c.want(200, &runs, "GET", "/v1/cells/"+cell+"/runs", nil)
		if n := len(runs.Items); n > 0 && runs.Items[n-1].State == "ended" {
			if got := runs.Items[n-1].Outcome; got != outcome {
				c.Errorf("%s: %s", cell, got)
			}
			return
		}
		if time.Now().After(limit) {
			c.Errorf("%s: %+v", cell, runs.Items)
			return
		}
		<-time.After(soakPause / 10)
	}
}

// cancels starts a run that answers at once, and cancels it.
func (c *soakCaller) cancels(cell string) {
	c.want(201, nil, "POST", "/v1/cells/base/fork", api.ForkBody{Name: cell})
	var run api.RunInfo
	c.want(202, &run, "POST", "/v1/cells/"+cell+"/runs", api.RunBody{Command: []string{"sleep", "1000"}}, "Prefer", "respond-async")
	c.want(202, nil, "POST", "/v1/runs/"+run.RunID+"/cancel", nil)
	c.ended(cell, "interrupted")
	c.drop(cell)
}

// malformed sends what is refused.
func (c *soakCaller) malformed(cell string) {
	c.problem(400, api.CodeUsage, "POST", "/v1/cells", `{"name":`)
	c.problem(400, api.CodeUsage, "POST", "/v1/cells", `{"unknown":1}`)
	c.problem(404, api.CodeNotFound, "GET", "/v1/cells/"+cell, nil)
	c.problem(404, api.CodeNotFound, "POST", "/v1/cells/"+cell+"/runs", api.RunBody{Command: []string{"true"}})
	c.problem(400, api.CodeUsage, "GET", "/v1/runs?limit=0", nil)
}

// watches follows changes of files, and leaves.
func (c *soakCaller) watches(cell string) {
	at, remove := c.start(cell)
	defer remove()
	req, err := http.NewRequest("POST", c.site+at+"/files/watch", strings.NewReader(`{"recursive":true}`))
	if err != nil {
		c.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		c.Error(err)
		return
	}
	defer resp.Body.Close()
	c.want(200, nil, "POST", at+"/exec", api.ExecBody{Command: []string{"touch", "new"}})
	seen := ""
	for buf := make([]byte, 4096); !strings.Contains(seen, "created"); {
		n, err := resp.Body.Read(buf)
		if seen += string(buf[:n]); err != nil {
			c.Errorf("%s: %v", seen, err)
			return
		}
	}
}

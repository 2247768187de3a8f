package daemon_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/forkcell/forkcell/internal/api"
)

// TestUnreadInput sends a command more input than it reads. Signals still arrive, and
// a caller that goes away is noticed.
func TestUnreadInput(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	const idle = "/v1/cells/demo/exec?command=sleep&command=1000"
	s, _ := d.open(idle)
	for range 3 {
		s.input(strings.Repeat("x", 300_000))
	}
	s.text(`{"type":"signal","name":"KILL"}`)
	if m := s.message(); m.Type != "exit" || m.Signal != "KILL" {
		t.Errorf("%+v", m)
	}
	s, id := d.open(idle + "&attached=true")
	for range 2 { // more than the daemon takes: it stops reading
		s.input(strings.Repeat("x", 900_000))
	}
	_ = s.conn.CloseNow()
	for deadline := time.Now().Add(time.Minute); d.executes("demo", id); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the command of a caller that has gone runs on")
		}
	}
}

// executes reports whether a command of a live cell has a process.
func (d *testDaemon) executes(cell, exec string) bool {
	d.Helper()
	var list api.List[struct {
		Exec string `json:"exec_id"`
	}]
	d.want(200, &list, "GET", "/v1/cells/"+cell+"/processes", nil)
	for _, p := range list.Items {
		if p.Exec == exec {
			return true
		}
	}
	return false
}

// TestAcknowledgedInput counts the input that the daemon says a command has read.
func TestAcknowledgedInput(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	s, resp, err := d.dial(shell("head -c 200000 >/dev/null; echo read; exec sleep 1000"), nil, execProtocol, execProtocol+".acknowledged")
	if err != nil || resp.Header.Get("Sec-WebSocket-Protocol") != execProtocol+".acknowledged" {
		t.Fatalf("%v %v", resp, err)
	}
	s.message()
	s.input(strings.Repeat("x", 200_000))
	for read, said := 0, false; read < 200_000 || !said; {
		kind, data, err := s.conn.Read(s.ctx)
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Type  string
			Bytes int
		}
		if kind == websocket.MessageBinary {
			said = true
		} else if err := json.Unmarshal(data, &m); err != nil || m.Type != "stdin_read" || m.Bytes < 1 {
			t.Fatalf("%v: %s", err, data)
		}
		if read += m.Bytes; read > 200_000 {
			t.Fatal(read)
		}
	}
}

package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/forkcell/forkcell/internal/api"
)

const execProtocol = "forkcell.exec.v1"

// socket is the caller's side of a command's WebSocket.
type socket struct {
	testing.TB
	conn *websocket.Conn
	ctx  context.Context //nolint:containedctx // of the one test
	out  [3]bytes.Buffer
}

type socketMessage struct {
	Type     string `json:"type"`
	ExecID   string `json:"exec_id"`
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal"`
}

// dial opens a WebSocket.
func (d *testDaemon) dial(path string, header http.Header, protocols ...string) (*socket, *http.Response, error) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), 3*time.Minute)
	d.Cleanup(cancel)
	conn, resp, err := websocket.Dial(ctx, "ws://localhost"+path, &websocket.DialOptions{HTTPClient: d.client, HTTPHeader: header, Subprotocols: protocols})
	if err != nil {
		return nil, resp, err
	}
	d.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	return &socket{TB: d.TB, conn: conn, ctx: ctx}, resp, nil
}

// open opens a command's WebSocket, and returns it with the command's id.
func (d *testDaemon) open(path string) (s *socket, id string) {
	d.Helper()
	s, _, err := d.dial(path, nil, execProtocol)
	if err != nil {
		d.Fatal(err)
	}
	m := s.message()
	if m.Type != "started" || m.ExecID == "" {
		d.Fatalf("%+v", m)
	}
	return s, m.ExecID
}

// message reads until a text message, and keeps the output before it.
func (s *socket) message() (m socketMessage) {
	s.Helper()
	for {
		kind, data, err := s.conn.Read(s.ctx)
		if err != nil {
			s.Fatal(err)
		}
		if kind == websocket.MessageText {
			if err := json.Unmarshal(data, &m); err != nil {
				s.Fatal(err)
			}
			return m
		}
		s.out[data[0]].Write(data[1:])
	}
}

// until reads output until it has a text.
func (s *socket) until(channel int, text string) {
	s.Helper()
	for !strings.Contains(s.out[channel].String(), text) {
		kind, data, err := s.conn.Read(s.ctx)
		if err != nil || kind != websocket.MessageBinary {
			s.Fatalf("%v: %s %s", err, data, s.out[channel].String())
		}
		s.out[data[0]].Write(data[1:])
	}
}

func (s *socket) text(m string) {
	s.Helper()
	if err := s.conn.Write(s.ctx, websocket.MessageText, []byte(m)); err != nil {
		s.Fatal(err)
	}
}

func (s *socket) input(text string) {
	s.Helper()
	if err := s.conn.Write(s.ctx, websocket.MessageBinary, append([]byte{0}, text...)); err != nil {
		s.Fatal(err)
	}
}

// closed returns the code with which the daemon closes the socket.
func (s *socket) closed() websocket.StatusCode {
	s.Helper()
	for {
		if _, _, err := s.conn.Read(s.ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// shell returns the path of a WebSocket of a shell command.
func shell(script string) string {
	return "/v1/cells/demo/exec?command=sh&command=-c&command=" + url.QueryEscape(script)
}

// TestSocket exchanges the streams of a command.
func TestSocket(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	s, _ := d.open(shell("echo $A; pwd; cat; echo oops >&2; exit 3") + "&env=A=b,c&workdir=/tmp")
	s.input("gi")
	s.input("ven")
	s.text(`{"type":"stdin_closed"}`)
	if m := s.message(); m.Type != "exit" || m.ExitCode != 3 || m.Signal != "" {
		t.Errorf("%+v", m)
	}
	if s.out[1].String() != "b,c\n/tmp\ngiven" || s.out[2].String() != "oops\n" {
		t.Errorf("%q %q", s.out[1].String(), s.out[2].String())
	}
	if code := s.closed(); code != websocket.StatusNormalClosure {
		t.Error(code)
	}
	s, _ = d.open("/v1/cells/demo/exec?command=sleep&command=1000")
	s.text(`{"type":"signal","name":"TERM"}`)
	if m := s.message(); m.Type != "exit" || m.ExitCode != 143 || m.Signal != "TERM" {
		t.Errorf("%+v", m)
	}
}

// TestSocketTerminal uses a terminal.
func TestSocketTerminal(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	s, _ := d.open("/v1/cells/demo/exec?command=sh&tty=true&cols=81&rows=25")
	s.input("stty size\n")
	s.until(1, "25 81")
	s.text(`{"type":"resize","cols":100,"rows":30}`)
	s.input("while ! stty size | grep '30 100'; do :; done; cat -v; echo left\n")
	s.until(1, "30 100\r")
	s.input("\x10\x11\n")    // Ctrl-P Ctrl-Q reaches the command
	s.until(1, "^P\r\n^P\r") // the echo, and cat; the terminal takes Ctrl-Q
	s.input("\x04")
	s.until(1, "left\r")
	s.input("exit 7\n")
	if m := s.message(); m.ExitCode != 7 || s.out[2].Len() != 0 {
		t.Errorf("%+v %q", m, s.out[2].String())
	}
}

// TestSocketDetaches closes the socket of a command, which goes on, and joins it
// again.
func TestSocketDetaches(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	s, id := d.open(shell("head -c 300000 /dev/zero; echo ready; read a; echo late $a; read b; echo got $b"))
	s.until(1, "ready\n")
	s.input("one\n")
	_ = s.conn.CloseNow() // the input that was sent still arrives
	again, other := d.open("/v1/cells/demo/exec/" + id)
	again.until(1, "late one\n")
	if other != id || again.out[1].Len() > 256<<10+len("late one\n") || again.out[1].Len() < 200<<10 {
		t.Errorf("%s, %d bytes", other, again.out[1].Len())
	}
	again.input("two\n")
	if m := again.message(); m.ExitCode != 0 || !strings.HasSuffix(again.out[1].String(), "got two\n") {
		t.Errorf("%+v", m)
	}
	_, resp, err := d.dial("/v1/cells/demo/exec/exec_none", nil, execProtocol)
	if err == nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("%v %v", resp, err)
	}
}

// TestSocketAtStop stops the daemon while a socket is open.
func TestSocketAtStop(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	s, id := d.open("/v1/cells/demo/exec?command=cat")
	ended := make(chan error, 1)
	go func() { ended <- d.stop() }()
	if code := s.closed(); code != websocket.StatusGoingAway {
		t.Error(code)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	d.start(api.ServeOptions{})
	again, _ := d.open("/v1/cells/demo/exec/" + id)
	again.input("x")
	again.until(1, "x")
}

// TestSocketHostile breaks the protocol in every way.
func TestSocketHostile(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	const cat = "/v1/cells/demo/exec?command=cat"
	for _, c := range []struct {
		name string
		kind websocket.MessageType
		data string
		want websocket.StatusCode
	}{
		{"empty", websocket.MessageBinary, "", websocket.StatusProtocolError},
		{"output", websocket.MessageBinary, "\x01x", websocket.StatusProtocolError},
		{"no JSON", websocket.MessageText, "resize", websocket.StatusPolicyViolation},
		{"unknown", websocket.MessageText, `{"type":"reboot"}`, websocket.StatusPolicyViolation},
		{"field", websocket.MessageText, `{"type":"stdin_closed","a":1}`, websocket.StatusPolicyViolation},
		{"signal", websocket.MessageText, `{"type":"signal","name":"NONE"}`, websocket.StatusPolicyViolation},
		{"size", websocket.MessageText, `{"type":"resize","cols":-1,"rows":70000}`, websocket.StatusPolicyViolation},
		{"large", websocket.MessageBinary, strings.Repeat("\x00", 1<<20+1), websocket.StatusMessageTooBig},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := *d
			d.TB = t
			s, _ := d.open(cat)
			if err := s.conn.Write(s.ctx, c.kind, []byte(c.data)); err != nil {
				t.Fatal(err)
			}
			if code := s.closed(); code != c.want {
				t.Errorf("closed with %d, want %d", code, c.want)
			}
		})
	}
	d.problem(426, api.CodeUpgrade, "GET", cat, nil)
	d.problem(400, api.CodeUsage, "GET", "/v1/cells/demo/exec", nil)
	d.problem(400, api.CodeUsage, "GET", cat+"&cols=70000", nil)
	for _, c := range []struct {
		header   http.Header
		protocol string
		status   int
	}{
		{nil, "other", 400},
		{nil, "", 400},
		{http.Header{"Origin": {"http://evil.example"}}, execProtocol, 403},
		{http.Header{"Origin": {"null"}}, execProtocol, 403},
		{http.Header{"Origin": {"http://localhost", "http://localhost"}}, execProtocol, 403},
	} {
		var protocols []string
		if c.protocol != "" {
			protocols = []string{c.protocol}
		}
		_, resp, err := d.dial(cat, c.header, protocols...)
		if err == nil || resp == nil || resp.StatusCode != c.status || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v: %v %v", c, resp, err)
		}
	}
	if _, _, err := d.dial(cat, http.Header{"Origin": {"http://localhost"}}, execProtocol); err != nil {
		t.Error(err)
	}
}

// TestSocketsLeaveNothing opens and drops sockets, and counts what is left.
func TestSocketsLeaveNothing(t *testing.T) {
	d := newDaemon(t)
	d.live("demo")
	before := d.atRest()
	for i := range 20 {
		s, _ := d.open(shell("cat"))
		if i%2 == 0 {
			s.text(`{"type":"stdin_closed"}`)
		}
		_ = s.conn.CloseNow()
	}
	d.client.CloseIdleConnections()
	before.settle(t)
}

package execsocket

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/api/execwire"
	"github.com/forkcell/forkcell/internal/api/execwire/execwiretest"
)

// dialer returns a function that opens a socket with both ends.
func dialer(t *testing.T, protocol string) func(t *testing.T) execwiretest.Pair {
	t.Helper()
	accepted := make(chan *websocket.Conn)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: Protocols()})
		if err != nil {
			t.Error(err)
			return
		}
		accepted <- ws
	}))
	t.Cleanup(server.Close)
	exit, err := Message{Type: "exit", ExitCode: new(int)}.Frame()
	if err != nil {
		t.Fatal(err)
	}
	one := make(chan struct{}, 1) // dials one after the other, so that the ends belong together
	return func(t *testing.T) execwiretest.Pair {
		t.Helper()
		ctx := context.WithoutCancel(t.Context())
		one <- struct{}{}
		defer func() { <-one }()
		ws, _, err := websocket.Dial(ctx, server.URL, &websocket.DialOptions{Subprotocols: []string{protocol}}) //nolint:bodyclose // the library does
		if err != nil {
			t.Fatal(err)
		}
		host := NewHost(ctx, <-accepted, time.Minute)
		caller, window := NewCaller(ctx, ws)
		t.Cleanup(func() { _, _ = caller.Close(), host.Close() })
		return execwiretest.Pair{Caller: caller, Host: host, Window: window, Exit: exit}
	}
}

// TestSuite runs the suite of transports.
func TestSuite(t *testing.T) {
	t.Parallel()
	for _, protocol := range Protocols() {
		execwiretest.Run(t, dialer(t, protocol))
	}
}

// TestCallerMessages: messages of a caller are read as strictly as bodies of requests.
func TestCallerMessages(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		`{"type":"resize","cols":80,"rows":24}`:              true,
		` {"rows":0, "type":"resize","cols":65535} `:         true,
		`{"type":"signal","name":"TERM"}`:                    true,
		`{"type":"stdin_closed"}`:                            true,
		`{"type":"resize","cols":80,"cols":81,"rows":24}`:    false,
		`{"type":"resize","Cols":80,"rows":24}`:              false,
		`{"type":"resize","cols":80}`:                        false,
		`{"type":"resize","cols":-1,"rows":24}`:              false,
		`{"type":"resize","cols":70000,"rows":24}`:           false,
		`{"type":"resize","cols":null,"rows":24}`:            false,
		`{"type":"signal","name":"TERM","exec_id":"exec_a"}`: false,
		`{"type":"signal"}`:                                  false,
		`{"type":"exit"}`:                                    false,
		`{"TYPE":"stdin_closed"}`:                            false,
		`{"type":"stdin_closed"} {"type":"stdin_closed"}`:    false,
		`{"type":"stdin_closed"`:                             false,
		`{"type":["stdin_closed"]}`:                          false,
		`[]`:                                                 false,
		`null`:                                               false,
		``:                                                   false,
	} {
		if _, err := parseCaller(websocket.MessageText, []byte(text)); good != (err == nil) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestTranscript holds the bytes of every message, which other programs know.
func TestTranscript(t *testing.T) {
	t.Parallel()
	text, name := "", "KILL"
	started, _ := Message{Type: "started", ExecID: "exec_1"}.Frame()
	exit, _ := Message{Type: "exit", ExitCode: new(int), Signal: &text}.Frame()
	killed, _ := Message{Type: "exit", ExitCode: new(137), Signal: &name, TimedOut: true, Killed: true, EndedBy: "stop"}.Frame()
	var got []string
	for _, f := range []execwire.Frame{
		{Kind: execwire.Stdin, Data: []byte("in")},
		{Kind: execwire.Stdout, Data: []byte("out")},
		{Kind: execwire.Stderr},
		{Kind: execwire.StdinEnd},
		{Kind: execwire.OutputEnd, Stderr: true},
		{Kind: execwire.Resize},
		{Kind: execwire.Signal, Signal: "INT"},
		{Kind: execwire.Window, Bytes: 4096},
		started, exit, killed,
	} {
		_, data, err := message(f)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(data))
	}
	want := []string{
		"\x00in", "\x01out", "\x02",
		`{"type":"stdin_closed"}`,
		`{"type":"signal","name":"PIPE"}`,
		`{"type":"resize","cols":0,"rows":0}`,
		`{"type":"signal","name":"INT"}`,
		`{"type":"stdin_read","bytes":4096}`,
		`{"type":"started","exec_id":"exec_1"}`,
		`{"type":"exit","exit_code":0,"signal":""}`,
		`{"type":"exit","exit_code":137,"signal":"KILL","timed_out":true,"killed":true,"ended_by":"stop"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzMessage reads any message at both ends. What is understood is one that the other end
// can send, and reads the same again.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{"type":"resize","cols":80,"rows":24}`, `{"type":"signal","name":"TERM"}`, `{"type":"stdin_closed"}`, `{"type":"stdin_read","bytes":7}`,
		`{"type":"started","exec_id":"exec_1"}`, `{"type":"exit","exit_code":0,"signal":""}`, `{"type":"later"}`, `{"type":1}`, `[]`, ``,
	} {
		f.Add(true, []byte(seed))
	}
	for _, seed := range []string{"", "\x00in", "\x01out", "\x02err", "\x03"} {
		f.Add(false, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, text bool, data []byte) {
		kind := websocket.MessageBinary
		if text {
			kind = websocket.MessageText
		}
		for _, parse := range []func(websocket.MessageType, []byte) (execwire.Frame, error){parseCaller, parseHost} {
			first, err := parse(kind, data)
			if err != nil || first.Kind == execwire.Unknown {
				continue
			}
			k, again, err := message(first)
			if err != nil || k != kind {
				t.Fatalf("%q is read as %+v, which cannot be sent: %v", data, first, err)
			}
			second, err := parse(k, again)
			if err != nil {
				t.Fatalf("%q is sent as %q, which is not understood: %v", data, again, err)
			}
			if text && first.Kind == execwire.Window {
				first.Data, second.Data = nil, nil // the text differs, what it says does not
			}
			if diff := cmp.Diff(first, second); diff != "" {
				t.Fatalf("%q is sent as %q (-want +got):\n%s", data, again, diff)
			}
			if !text && !bytes.Equal(data, again) {
				t.Fatalf("%q is sent as %q", data, again)
			}
		}
	})
}

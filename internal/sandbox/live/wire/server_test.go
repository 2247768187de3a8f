package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
)

func frame(kind byte, payload string) string {
	b := []byte{kind, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(b[1:], uint32(len(payload)))
	return string(b) + payload
}

const goodHello = `{"min":1,"max":1,"version":"t"}`

// talk sends bytes and returns the last frame of the answer.
func talk(t *testing.T, path, bytes string) (kind byte, payload string) {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, bytes)
	for r := bufio.NewReader(conn); ; {
		var head [5]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return kind, payload
		}
		p := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(r, p); err != nil {
			t.Fatal(err)
		}
		kind, payload = head[0], string(p)
	}
}

func TestBadClients(t *testing.T) {
	t.Parallel()
	f := serve(t, &realHost{}, wire.Options{})
	hasty := serve(t, &realHost{}, wire.Options{RequestTimeout: 300 * time.Millisecond})
	exec := func(more string) string {
		return frame(1, goodHello) + frame(2, `{"exec":{"args":["L2Jpbi9jYXQ="],"size":{"rows":0,"cols":0},"stdin":true}}`) + more
	}
	for _, c := range []struct{ name, send, code, text string }{
		{"silence", "", "timeout", "no request came in time"},
		{"half a frame", "\x01\x00", "timeout", "no request"},
		{"hello only", frame(1, goodHello), "timeout", "no request"},
		{"http", "GET / HTTP/1.1\r\n\r\n", "protocol", "no frame has type 71"},
		{"huge", "\x01\xff\xff\xff\xff", "protocol", "at most 4096"},
		{"huge request", frame(1, goodHello) + "\x02\x7f\xff\xff\xff", "protocol", "at most 16777216"},
		{"no hello", frame(2, `{"sessions":true}`), "protocol", "where one of type 1 is due"},
		{"hello is no JSON", frame(1, "{"), "protocol", "hello cannot be understood"},
		{"two hellos", frame(1, goodHello) + frame(1, goodHello), "protocol", "where one of type 2 is due"},
		{"later version", frame(1, `{"min":7,"max":9,"version":"8.0","new":1}`), "protocol_mismatch", "(forkcell 1.2.3) supports version 1 of the live protocol, this program (forkcell 8.0) versions 7 to 9"},
		{"no version", frame(1, `{}`), "protocol_mismatch", "version 0"},
		{"empty request", frame(1, goodHello) + frame(2, `{}`), "protocol", "0 things"},
		{"two requests", frame(1, goodHello) + frame(2, `{"sessions":true,"processes":true}`), "protocol", "2 things"},
		{"unknown field", frame(1, goodHello) + frame(2, `{"sessions":true,"sudo":true}`), "protocol", "unknown field"},
		{"trailing", frame(1, goodHello) + frame(2, `{"sessions":true}{}`), "protocol", "something follows"},
		{"no command", frame(1, goodHello) + frame(2, `{"exec":{"args":[],"size":{"rows":0,"cols":0}}}`), "usage", "no command"},
		{"zero byte", frame(1, goodHello) + frame(2, `{"exec":{"args":["YQBi"],"size":{"rows":0,"cols":0}}}`), "usage", "zero byte"},
		{"unknown session", frame(1, goodHello) + frame(2, `{"attach":{"session":"x","size":{"rows":0,"cols":0}}}`), "not_found", "no command"},
		{"server's frame", exec(frame(8, "x")), "protocol", "type 8 inside a session"},
		{"signal 0", exec(frame(12, `{"signal":0}`)), "protocol", "no signal 0"},
		{"signal 65", exec(frame(12, `{"signal":65}`)), "protocol", "no signal 65"},
		{"bad resize", exec(frame(11, `{"rows":70000,"cols":1}`)), "protocol", "cannot be understood"},
		{"data too long", exec("\x06\x00\x00\x80\x01"), "protocol", "at most 32768"},
		{"end with data", exec("\x07\x00\x00\x00\x01x"), "protocol", "at most 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := f.path
			if c.code == "timeout" {
				path = hasty.path
			}
			kind, payload := talk(t, path, c.send)
			var e struct{ Error api.Error }
			if kind != 3 || json.Unmarshal([]byte(payload), &e) != nil || string(e.Error.Code) != c.code || !strings.Contains(e.Error.Message, c.text) {
				t.Errorf("frame %d, %q; want %s, %q", kind, payload, c.code, c.text)
			}
		})
	}
	t.Run("window ignored", func(t *testing.T) {
		t.Parallel()
		cmd := strings.Replace(exec(""), "L2Jpbi9jYXQ=\"", "L2Jpbi9zbGVlcA==\",\"MTAw\"", 1) // sleep 100
		cmd = frame(1, goodHello) + frame(2, cmd[strings.Index(cmd, `{"exec`):])
		// The kernel's pipe and the Host's buffer hold some of it.
		_, payload := talk(t, f.path, cmd+strings.Repeat(frame(6, strings.Repeat("x", 32<<10)), 16))
		if !strings.Contains(payload, "bytes of input where") {
			t.Errorf("%q", payload)
		}
	})
}

// Another user is refused before a byte of theirs is read.
func TestOtherUser(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "forkcell-live-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "open.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	uid := os.Geteuid()
	if uid != 0 {
		uid++ // the server belongs to another user than this process
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- wire.Serve(ctx, l, &realHost{}, wire.Options{UID: uid}) }()
	t.Cleanup(func() { cancel(); <-served })

	cmd := child(t, envClient, path, "exit 0")
	cmd.Dir = "/"
	if uid == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if err == nil || out.String() != "not_yours\n" || !strings.Contains(errs.String(), "may not use it") {
		t.Errorf("%v, %q, %q", err, out.String(), errs.String())
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	inCall, canceled := make(chan struct{}), make(chan struct{})
	full := &api.Error{Kind: "later", Code: "c", Message: "m", Hint: "h", Details: []string{"d"}}
	h := &realHost{call: func(ctx context.Context, method string, req json.RawMessage) (json.RawMessage, error) {
		switch method {
		case "echo":
			return req, nil
		case "nothing":
			return nil, nil
		case "plain":
			return nil, errors.New("plain words")
		case "full":
			return nil, full
		case "wrapped":
			return nil, fmt.Errorf("around: %w", full)
		case "wait":
			close(inCall)
			<-ctx.Done()
			close(canceled)
			return nil, ctx.Err()
		case "large":
			return bytes.Repeat([]byte{'1'}, 16<<20), nil
		default:
			return json.RawMessage("{"), nil
		}
	}}
	f := serve(t, h, wire.Options{})
	for _, c := range []struct {
		method, req, want string
		err               error
	}{
		{"echo", `{"a":[1,"é"]}`, `{"a":[1,"é"]}`, nil},
		{"nothing", "", "", nil},
		{"plain", "", "", &api.Error{Kind: api.Failed, Code: api.CodeFailed, Message: "plain words"}},
		{"full", "", "", full},
		{"wrapped", "", "", &api.Error{Kind: "later", Code: "c", Message: "around: m", Hint: "h", Details: []string{"d"}}},
		{"large", "", "", &api.Error{Kind: api.Failed, Code: api.CodeTooLarge, Message: "an answer of 16777216 bytes is too large"}},
		{"broken", "", "", &api.Error{Kind: api.Failed, Code: api.CodeFailed, Message: "call broken: the answer is not JSON"}},
	} {
		got, err := f.Call(t.Context(), c.method, json.RawMessage(c.req))
		if diff := cmp.Diff(c.err, err); diff != "" || string(got) != c.want {
			t.Errorf("%s: %s, %s", c.method, got, diff)
		}
	}
	// A client that disconnects ends its call.
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-inCall; cancel() }()
	if _, err := f.Call(ctx, "wait", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-canceled
}

// TestUndelivered: the host learns of an answer that its client did not wait for.
func TestUndelivered(t *testing.T) {
	t.Parallel()
	inCall, undelivered := make(chan struct{}), make(chan string, 2)
	h := &realHost{call: func(ctx context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
		if method == "done" {
			return json.RawMessage("1"), nil
		}
		close(inCall)
		<-ctx.Done()
		return json.RawMessage("2"), nil
	}}
	f := serve(t, h, wire.Options{Undelivered: func(method string, request json.RawMessage) {
		undelivered <- method + " " + string(request)
	}})
	if _, err := f.Call(t.Context(), "done", nil); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-inCall; cancel() }()
	if _, err := f.Call(ctx, "late", json.RawMessage(`{"a":1}`)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := <-undelivered; got != `late {"a":1}` {
		t.Errorf("undelivered is %q", got)
	}
}

// A call that stops the server gets its answer; commands die and their clients
// hear how.
func TestStop(t *testing.T) {
	t.Parallel()
	h := &realHost{}
	f := serve(t, h, wire.Options{Grace: time.Minute})
	started, ended := make(chan struct{}), make(chan wire.Exit, 1)
	h.call = func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		f.cancel()
		<-ended // what stopping a cell takes
		return json.RawMessage(`"stopped"`), nil
	}
	go func() {
		exit, err := f.Exec(t.Context(), sh("trap '' HUP TERM; while :; do sleep 0.1; done"), wire.Streams{},
			wire.Control{Started: func(wire.Session) { close(started) }})
		if err != nil {
			t.Error(err)
		}
		ended <- exit
		ended <- exit
	}()
	<-started
	got, err := f.Call(t.Context(), "stop", nil)
	if err != nil || string(got) != `"stopped"` {
		t.Errorf("%s, %v", got, err)
	}
	if exit := <-ended; exit.Signal != int(syscall.SIGKILL) {
		t.Errorf("%+v", exit)
	}
	err = <-f.served
	f.served <- err
	if _, err := wire.NewClient(f.path, "").Sessions(t.Context()); !errors.Is(err, wire.ErrNoServer) {
		t.Errorf("after the end: %v", err)
	}
}

// Stopping may take longer than clients have to take their last output.
func TestStopTakesLong(t *testing.T) {
	t.Parallel()
	h := &realHost{}
	f := serve(t, h, wire.Options{Grace: time.Millisecond})
	h.call = func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		f.cancel()
		<-ctx.Done()
		<-time.After(50 * time.Millisecond) // work that outlasts the grace
		return json.RawMessage(`"stopped"`), nil
	}
	got, err := f.Call(t.Context(), "stop", nil)
	if err != nil || string(got) != `"stopped"` {
		t.Errorf("%s, %v", got, err)
	}
}

// A supervisor that is killed leaves clients that know, and a name that the
// next one takes over.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "live", "s")
	cmd := child(t, envServer, path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := wire.Listen(path); !errors.Is(err, wire.ErrInUse) {
		t.Errorf("a second server: %v", err)
	}
	c := wire.NewClient(path, "")
	_, err = c.Exec(t.Context(), sh("read never"), wire.Streams{In: zeroless{}}, wire.Control{Started: func(wire.Session) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}})
	if !errors.Is(err, wire.ErrLost) {
		t.Errorf("exec: %v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the name of the dead: %v", err)
	}
	if _, err := c.Sessions(t.Context()); !errors.Is(err, wire.ErrNoServer) {
		t.Errorf("after its death: %v", err)
	}
	l, err := wire.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// zeroless is an input that never comes.
type zeroless struct{}

func (zeroless) Read([]byte) (int, error) { select {} }

package client_test

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/client"
)

// against returns the client of a server that gives every request the same answer.
func against(t *testing.T, answer http.HandlerFunc, opts ...client.Option) *client.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c, err := client.New(append([]client.Option{client.WithURL(server.URL), client.WithToken("t")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func document(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// wantProtocol checks the error about what is no answer.
func wantProtocol(t *testing.T, what string, err error) {
	t.Helper()
	if !client.HasCode(err, "protocol") {
		t.Errorf("%s: %v", what, err)
	}
}

// TestNamesOfAnswers: the names and ids of an answer follow their grammars, in documents,
// lists, streams and problems.
func TestNamesOfAnswers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"--to=/tmp/x", "-x", "../x", "a/b", `a\n`, `a\u001b]52;c;eA==\u0007`, `a\u202eb`, "A"} {
		c := against(t, document(`{"cell":"`+name+`"}`))
		_, err := c.Cells.Create(t.Context(), client.CreateCell{Source: &client.Source{Empty: true}})
		wantProtocol(t, name, err)
		c = against(t, document(`{"items":[{"run_id":"`+name+`"}],"next":null}`))
		for _, err := range c.Runs.List(t.Context()) {
			wantProtocol(t, name, err)
		}
		c = against(t, document("event: started\ndata: {\"run_id\":\""+name+"\"}\n\n"))
		_, err = c.Cells.Named("x").Run(t.Context(), client.Run{Command: []string{"true"}}, client.OnStarted(func(id string) { t.Errorf("began %q", id) }))
		wantProtocol(t, name, err)
		c = against(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"code":"`+name+`","detail":"x"}`)
		})
		_, err = c.Version(t.Context())
		wantProtocol(t, name, err)
	}
}

// TestEndlessList: a page that is empty, or that names itself, is not followed.
func TestEndlessList(t *testing.T) {
	t.Parallel()
	for _, page := range []string{`{"items":[],"next":"again"}`, `{"items":[{}],"next":"again"}`} {
		var last error
		for _, err := range against(t, document(page)).Cells.List(t.Context(), client.CellFilter{}) {
			last = err
		}
		wantProtocol(t, page, last)
	}
}

// TestLongFile: a file is not read as a whole if it is longer than that may be; a cell makes
// files of any size.
func TestLongFile(t *testing.T) {
	t.Parallel()
	c := against(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(1<<40))
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	_, err := c.Cells.Named("x").Files().Read(t.Context(), "a")
	wantProtocol(t, "read", err)
	content, err := c.Cells.Named("x").Files().Open(t.Context(), "a", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if n, err := io.ReadFull(content, make([]byte, 1<<20)); err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestSocketHostile: a socket that begins a frame of 1 GiB, or sends what is no message of a
// command, ends with an error.
func TestSocketHostile(t *testing.T) {
	t.Parallel()
	const started = `{"type":"started","exec_id":"exec_1"}`
	frame := func(kind byte, text string) string { return string([]byte{kind, byte(len(text))}) + text }
	for name, more := range map[string]string{
		"1 GiB":      "\x82\x7f\x00\x00\x00\x00\x40\x00\x00\x00\x01",
		"compressed": "\xc2\x01\x01",
		"masked":     "\x82\x81aaaa\x01",
		"no message": frame(0x81, "7"),
		"a list":     frame(0x81, "[]"),
		"cut":        "\x82",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := against(t, func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: forkcell.exec.v1\r\n"+
					"Sec-WebSocket-Accept: "+base64.StdEncoding.EncodeToString(sum[:])+"\r\n\r\n"+frame(0x81, started)+more)
				for err == nil && name == "1 GiB" { // the client has enough before it ends
					_, err = conn.Write(make([]byte, 64<<10))
				}
			})
			s, err := c.Cells.Named("x").OpenExec(t.Context(), client.OpenExec{Command: []string{"true"}}, client.Stdout(io.Discard))
			if err != nil {
				t.Fatal(err)
			}
			if exit, err := s.Wait(); err == nil || exit != nil {
				t.Errorf("%+v, %v", exit, err)
			}
		})
	}
}

// TestNameIsNoFlag: the name of a cell is no flag of the program that writes to this
// machine.
func TestNameIsNoFlag(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "forkcell")
	script := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$@\" >%s/args\necho '{}'\n", dir)
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	c := against(t, document(`{"source":"upload:upl_1"}`), client.WithBinary(program))
	cell := c.Cells.Named("--to=/tmp/x")
	_, apply := cell.Apply(t.Context(), client.Apply{})
	wantArgs(t, dir, apply)
	_, undo := cell.Undo(t.Context(), client.Undo{})
	wantArgs(t, dir, undo)
	_, refresh := cell.Refresh(t.Context(), client.Refresh{})
	wantArgs(t, dir, refresh)
	_, create := c.Cells.CreateFrom(t.Context(), dir, client.CreateCell{Name: "--to=/tmp/x"})
	wantArgs(t, dir, create)
}

func wantArgs(t *testing.T, dir string, failed error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "args"))
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	args := strings.Fields(string(text))
	if n := slices.Index(args, "--"); n != len(args)-2 || args[n+1] != "--to=/tmp/x" {
		t.Errorf("%q", args)
	}
}

// TestErrorsAreVisible: the text of an error is one line that does not draw: programs print
// it. Its fields are as they came.
func TestErrorsAreVisible(t *testing.T) {
	t.Parallel()
	const evil = `a\u001b]52;c;eA==\u0007\nb\u202ec\u009b31m`
	c := against(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"code":"usage","detail":"`+evil+`","hint":"`+evil+`","details":["`+evil+`"]}`)
	})
	_, err := c.Cells.Named("x").Status(t.Context())
	const shown = `a\x1b]52;c;eA==\a\nb\u202ec\u009b31m`
	if want := shown + ": " + shown + " (" + shown + ")"; err == nil || err.Error() != want {
		t.Errorf("%q\nwant %q", err, want)
	}
}

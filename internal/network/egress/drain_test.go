package egress_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"
)

// TestDrain: what a program wrote before it ended is sent, though the upstream
// was not reached yet. A silent upstream is not waited for.
func TestDrain(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(tcpDB))
	got := make(chan string, 1)
	c.listen("db.example.com", 5432, func(conn net.Conn) {
		text, _ := io.ReadAll(conn)
		got <- string(text)
		_, _ = conn.Read(make([]byte, 1))
	})
	c.proxy.Drain(time.Hour) // nothing is open
	c.slow = make(chan struct{})
	conn := c.dial(c.to("db.example.com", 5432))
	if _, err := io.WriteString(conn, "last words"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	for c.dials.Load() == 0 {
		runtime.Gosched()
	}
	c.proxy.Drain(time.Millisecond) // the limit holds
	close(c.slow)
	c.proxy.Drain(time.Hour)
	if err := c.proxy.Close(); err != nil {
		t.Error(err)
	}
	if text := <-got; text != "last words" {
		t.Errorf("the upstream was sent %q", text)
	}
}

// TestDrainTunnel: a tunnel through the proxy is waited for until its program has ended it.
func TestDrainTunnel(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(tcpDB))
	got := make(chan string, 1)
	c.listen("db.example.com", 5432, func(conn net.Conn) {
		text, _ := io.ReadAll(conn)
		got <- string(text)
	})
	conn := c.dial(explicit)
	if _, err := io.WriteString(conn, "CONNECT db.example.com:5432 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, err)
	}
	_ = res.Body.Close()
	const limit = 50 * time.Millisecond
	begin := time.Now()
	if c.proxy.Drain(limit); time.Since(begin) < limit {
		t.Error("a tunnel that is open was not waited for")
	}
	if _, err := io.WriteString(conn, "last words"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	c.proxy.Drain(time.Hour)
	if err := c.proxy.Close(); err != nil {
		t.Error(err)
	}
	if text := <-got; text != "last words" {
		t.Errorf("the upstream was sent %q", text)
	}
}

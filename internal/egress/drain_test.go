package egress_test

import (
	"io"
	"net"
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

package egress_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress"
)

// These tests measure the memory of the process, so they run alone, one after
// the other.

const mebi = 1 << 20

func withMemory(n int64, hello time.Duration) option {
	return func(c *egress.Config) { c.Limits.Memory, c.Limits.Hello = n, hello }
}

// grown returns how much the process has grown by since a measurement.
func grown(before uint64) int64 { return int64(inUse()) - int64(before) }

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// inBudget checks that a cell holds no more than it may, in the proxy's own
// account and as measured. The test's own connections are in the measurement.
func (c *cell) inBudget(before uint64, limit, own int64) {
	c.t.Helper()
	if n := c.proxy.MemoryHeld(); n > limit {
		c.t.Errorf("%d KiB are accounted for, the limit is %d KiB", n>>10, limit>>10)
	}
	if n := grown(before); n > limit+own {
		c.t.Errorf("the process has grown by %d KiB, the limit is %d KiB", n>>10, limit>>10)
	}
	c.find(event.NetworkActivity, func(e map[string]any) bool { return strings.Contains(fieldOf(e), "MiB of memory") })
}

// many opens connections, sends the same on each, and returns how many of them
// the proxy has ended.
func (c *cell) many(n int, to egress.Destination, send func(net.Conn) error) int {
	c.t.Helper()
	var ended atomic.Int64
	var wg sync.WaitGroup
	for range n {
		// One that is refused may be reset before it is open.
		conn, err := net.Dial("tcp", c.at(to))
		if err != nil {
			ended.Add(1)
			continue
		}
		c.t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		wg.Go(func() {
			if send(conn) != nil {
				ended.Add(1)
			}
		})
	}
	wg.Wait()
	return int(ended.Load())
}

// TestMemoryFrames checks websockets with frames that never end.
func TestMemoryFrames(t *testing.T) { //nolint:paralleltest // it measures the process
	const limit = 16 * mebi
	c := newCell(t, rules("{host: api.example.com, port: 80, protocol: websocket, rules: [{allow: {method: GET, path: /}}, {allow: {operation_type: query}}]}"), withMemory(limit, time.Second))
	c.listen(api, 80, func(conn net.Conn) {
		b := make([]byte, 4096)
		if _, err := conn.Read(b); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	frame := append([]byte{0x81, 0xff}, binary.BigEndian.AppendUint64(nil, 4*mebi)...)
	frame = append(frame, make([]byte, 4+3*mebi)...)
	before := inUse()
	ended := c.many(40, c.to(api, 80), func(conn net.Conn) error {
		res := raw(conn, "GET / HTTP/1.1\r\nHost: api.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
		if res == nil || res.StatusCode != 101 {
			return errors.New("no websocket")
		}
		if _, err := conn.Write(frame); err != nil {
			return err
		}
		return isOpen(conn)
	})
	if ended == 0 {
		t.Error("no frame was refused")
	}
	if n := c.proxy.MemoryHeld(); n > limit {
		t.Errorf("%d KiB are accounted for", n>>10)
	}
	if n := grown(before); n > limit+8*mebi {
		t.Errorf("the process has grown by %d KiB", n>>10)
	}
	c.find(event.HTTPActivity, func(e map[string]any) bool { return strings.Contains(fieldOf(e), "MiB of memory") })
}

// isOpen waits a moment for the end of a connection that sends nothing.
func isOpen(conn net.Conn) error {
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	_, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return nil
	}
	return errors.Join(err, io.EOF)
}

// TestMemoryHeaders checks headers that never end.
func TestMemoryHeaders(t *testing.T) { //nolint:paralleltest // it measures the process
	const limit = 8 * mebi
	c := newCell(t, rules(plainAPI), withMemory(limit, 5*time.Second))
	header := "GET /ok/ HTTP/1.1\r\nHost: api.example.com\r\n" + strings.Repeat("X-A: "+strings.Repeat("a", 95)+"\r\n", 500)
	before := inUse()
	ended := c.many(200, c.to(api, 80), func(conn net.Conn) error {
		if _, err := io.WriteString(conn, header); err != nil {
			return err
		}
		return isOpen(conn)
	})
	if ended == 0 {
		t.Error("no header was refused")
	}
	c.inBudget(before, limit, 8*mebi)
}

// TestMemoryBodies checks bodies that are read before the request is decided and
// never end.
func TestMemoryBodies(t *testing.T) { //nolint:paralleltest // it measures the process
	const limit = 8 * mebi
	c := newCell(t, rules("{host: api.example.com, port: 80, protocol: json-rpc, json_rpc: {max_body_bytes: 4194304}, rules: [{allow: {method: a}}]}"), withMemory(limit, 5*time.Second))
	request := "POST / HTTP/1.1\r\nHost: api.example.com\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n\r\n" + strings.Repeat(" ", mebi)
	before := inUse()
	var refused atomic.Int64
	c.many(30, c.to(api, 80), func(conn net.Conn) error {
		_, _ = io.WriteString(conn, request)
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		b := make([]byte, 12)
		if _, err := io.ReadFull(conn, b); err == nil && string(b) == "HTTP/1.1 503" {
			refused.Add(1)
		}
		return nil
	})
	if refused.Load() == 0 {
		t.Error("no body was refused")
	}
	if n := c.proxy.MemoryHeld(); n > limit {
		t.Errorf("%d KiB are accounted for", n>>10)
	}
	if n := grown(before); n > limit+8*mebi {
		t.Errorf("the process has grown by %d KiB", n>>10)
	}
}

// TestMemoryConnections checks connections on which nothing comes, and streams
// of HTTP/2 whose answers do not.
func TestMemoryConnections(t *testing.T) { //nolint:paralleltest // it measures the process
	const limit = 4 * mebi
	c := newCell(t, rules(fullAPI, "{host: db.example.com, port: 5432}"), withMemory(limit, 200*time.Millisecond))
	c.listen("db.example.com", 5432, echo)
	stop := make(chan struct{})
	defer close(stop)
	c.serve(api, 443, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	}))
	if ended := c.many(300, c.to("db.example.com", 5432), func(conn net.Conn) error { return isOpen(conn) }); ended < 40 {
		t.Errorf("%d of 300 connections were refused", ended)
	}
	if n := c.proxy.MemoryHeld(); n > limit {
		t.Errorf("%d KiB are accounted for", n>>10)
	}
}

// TestMemoryStreams checks that requests in HTTP/2 wait for each other, and are
// refused when they wait for too long.
func TestMemoryStreams(t *testing.T) { //nolint:paralleltest // it measures the process
	const limit = 8 * mebi
	c := newCell(t, rules(fullAPI), withMemory(limit, 500*time.Millisecond))
	block := make([]byte, 64<<10)
	c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	conn := c.tlsH2(c.dial(c.to(api, 443)), api)
	// A reader that takes little: every answer stays where it is.
	client, err := (&http2.Transport{ReadIdleTimeout: 0}).NewClientConn(conn)
	if err != nil {
		t.Fatal(err)
	}
	before := inUse()
	var open, refused atomic.Int64
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			r, err := http.NewRequestWithContext(ctx, "GET", "https://"+api+"/", nil)
			if err != nil {
				return
			}
			res, err := client.RoundTrip(r)
			// Nothing left for a request is an answer, nothing left for a stream
			// the end of its connection.
			if err != nil || res.StatusCode == http.StatusServiceUnavailable {
				refused.Add(1)
			} else {
				open.Add(1)
			}
		})
	}
	wg.Wait()
	if refused.Load() == 0 {
		t.Errorf("%d open, %d refused", open.Load(), refused.Load())
	}
	if n := c.proxy.MemoryHeld(); n > limit {
		t.Errorf("%d KiB are accounted for", n>>10)
	}
	// The test's own client holds what it has not read, 4 MiB of each.
	if n, own := grown(before), open.Load()*4*mebi; n > limit+own+8*mebi {
		t.Errorf("the process has grown by %d KiB, %d KiB of them the client's", n>>10, own>>10)
	}
}

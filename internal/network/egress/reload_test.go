package egress_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

// TestReload checks what a new policy cuts and what it keeps: connections,
// requests on their way, and later requests on a kept connection.
func TestReload(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		c := newCell(t, rules(tcpDB, "{host: db2.example.com, port: 5432}", fullAPI))
		c.listen("db.example.com", 5432, echo)
		c.listen("db2.example.com", 5432, echo)
		gone := make(chan string, 2)
		c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "start")
			_ = http.NewResponseController(w).Flush()
			if r.URL.Path != "/now" {
				<-r.Context().Done()
				gone <- r.URL.Path
			}
		}))
		cut, kept := c.dial(c.to("db.example.com", 5432)), c.dial(c.to("db2.example.com", 5432))
		b := make([]byte, 5)
		for _, conn := range []io.ReadWriter{cut, kept} {
			_, _ = io.WriteString(conn, "hello")
			if _, err := io.ReadFull(conn, b); err != nil {
				t.Fatal(err)
			}
		}
		cl := c.client(h2)
		open := func(path string) *http.Response {
			ctx, cancel := context.WithCancel(context.Background())
			t.Cleanup(cancel)
			r, err := http.NewRequestWithContext(ctx, "GET", "https://"+api+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := cl.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = res.Body.Close() })
			if _, err := io.ReadFull(res.Body, b); err != nil {
				t.Fatal(err)
			}
			return res
		}
		cutRequest, keptRequest := open("/a"), open("/b")

		next := generation(t, rules("{host: db2.example.com, port: 5432}",
			"{host: api.example.com, port: 443, protocol: rest, rules: [{allow: {method: GET, path: /b}}]}"))
		if err := c.proxy.Reload(next); err != nil {
			t.Fatal(err)
		}
		isReset(t, cut)
		if _, err := io.ReadAll(cutRequest.Body); err == nil {
			t.Error("the request that is no longer allowed ended well")
		}
		if path := <-gone; path != "/a" {
			t.Error("cut at the upstream:", path)
		}
		_, _ = io.WriteString(kept, "again")
		if _, err := io.ReadFull(kept, b); err != nil || string(b) != "again" {
			t.Error("kept connection:", err)
		}
		// On a connection that was kept, the new policy decides.
		if status, body, _ := get(t, cl, "GET", "https://"+api+"/now", nil); status != 403 {
			t.Error(status, body)
		}
		c.find(event.NetworkActivity, func(e map[string]any) bool {
			return text(e, "dst_endpoint", "hostname") == "db.example.com" && text(e, "disposition") == "Blocked" && text(e, "activity_name") == "Reset"
		})
		c.find(event.HTTPActivity, func(e map[string]any) bool {
			return text(e, "http_request", "url", "path") == "/a" && text(e, "disposition") == "Blocked"
		})
		// Every denial is the new policy's.
		if status, _, _ := get(t, cl, "GET", "https://"+api+"/b%2fc", nil, "Host", "other.example.com"); status != 403 {
			t.Error(status)
		}
		// It may be reset before it is open.
		if refused, err := net.Dial("tcp", c.at(c.to("db.example.com", 5432))); err == nil {
			_ = refused.SetDeadline(time.Now().Add(20 * time.Second))
			isReset(t, refused)
			_ = refused.Close()
		}
		c.find(event.NetworkActivity, func(e map[string]any) bool { return text(e, "activity_name") == "Refuse" })
		c.mu.Lock()
		for _, e := range c.events {
			if hash := text(e, "policy", "uid"); text(e, "disposition") == "Blocked" && hash != next.Hash && hash != strings.TrimPrefix(next.Hash, "sha256:") {
				t.Errorf("the denial carries %s, the policy is %s: %v", hash, next.Hash, e)
			}
			if text(e, "http_request", "url", "path") == "/b" {
				t.Error("the kept request has ended:", e)
			}
		}
		c.mu.Unlock()
		_ = keptRequest.Body.Close()
	})
}

// TestReloadMeaning checks connections whose endpoint is still listed, but means
// something else.
func TestReloadMeaning(t *testing.T) {
	t.Parallel()
	for _, to := range []string{
		"{host: db.example.com, port: 5432, protocol: rest, access: full}",
		"{host: db.example.com, port: 5432, allowed_ips: [10.0.0.0/8]}",
		"{host: db.example.com, port: 5433}",
	} {
		c := newCell(t, rules(tcpDB))
		c.listen("db.example.com", 5432, echo)
		conn := c.dial(c.to("db.example.com", 5432))
		_, _ = io.WriteString(conn, "x")
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if err := c.proxy.Reload(generation(t, rules(to))); err != nil {
			t.Fatal(err)
		}
		isReset(t, conn)
	}
}

// TestReloadWaiting checks that a request whose answer has not begun gets the reason
// it is cut.
func TestReloadWaiting(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(fullAPI))
	arrived := make(chan struct{})
	c.serve(api, 443, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	reloaded := make(chan error, 1)
	go func() {
		<-arrived
		reloaded <- c.proxy.Reload(generation(t, rules("{host: api.example.com, port: 443, protocol: rest, rules: [{allow: {method: GET, path: /b}}]}")))
	}()
	status, body, _ := get(t, c.client(true), "GET", "https://"+api+"/a", nil)
	if status != 403 || !strings.Contains(body, "no rule of the entry allows GET") {
		t.Error(status, body)
	}
	if err := <-reloaded; err != nil {
		t.Error(err)
	}
	if err := c.proxy.Reload(nil); err == nil {
		t.Error("a policy that is none")
	}
}

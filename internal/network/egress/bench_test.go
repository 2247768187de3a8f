package egress_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress"
)

// target is an upstream and a client for it, direct or through the proxy.
func target(b *testing.B, through, h2 bool, size int) (*http.Client, string) {
	b.Helper()
	// Events are written down as in a run.
	c := newCell(b, rules(fullAPI), func(cfg *egress.Config) { cfg.Event = journal(b) })
	body := bytes.Repeat([]byte("x"), 1<<10)
	up := c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		for n := 0; n < size; n += len(body) {
			_, _ = w.Write(body)
		}
	}))
	cl := c.client(h2)
	tr := cl.Transport.(*http.Transport)
	if !through {
		addr := up.Listener.Addr().String()
		tr.DialContext = nil
		tr.TLSClientConfig = &tls.Config{RootCAs: poolOf(b, c.hosts), ServerName: api}
		return cl, "https://" + addr + "/"
	}
	return cl, "https://" + api + "/"
}

func journal(b *testing.B) func(event.Event) {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "events.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	j, err := event.Create(f, event.Meta{Cell: "cell", Run: "run"}, event.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return func(e event.Event) {
		if err := j.Append(e); err != nil {
			b.Error(err)
		}
	}
}

func sides(b *testing.B, f func(b *testing.B, through, h2 bool)) {
	b.Helper()
	for _, h2 := range []bool{false, true} {
		for _, through := range []bool{false, true} {
			b.Run(fmt.Sprintf("h2=%v/through=%v", h2, through), func(b *testing.B) { f(b, through, h2) })
		}
	}
}

func fetch(b *testing.B, cl *http.Client, url string) int64 {
	res, err := cl.Get(url)
	if err != nil {
		b.Fatal(err)
	}
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil || res.StatusCode != 200 {
		b.Fatal(res.StatusCode, err)
	}
	_ = res.Body.Close()
	return n
}

// BenchmarkOneByOne is 1 KiB on a connection that stays, each after the one
// before: what a program that does one thing at a time waits for.
func BenchmarkOneByOne(b *testing.B) {
	sides(b, func(b *testing.B, through, h2 bool) {
		cl, url := target(b, through, h2, 1<<10)
		fetch(b, cl, url)
		b.ReportAllocs()
		for b.Loop() {
			fetch(b, cl, url)
		}
	})
}

// BenchmarkKeepAlive is 1 KiB on connections that stay, several at once.
func BenchmarkKeepAlive(b *testing.B) {
	sides(b, func(b *testing.B, through, h2 bool) {
		cl, url := target(b, through, h2, 1<<10)
		fetch(b, cl, url)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				fetch(b, cl, url)
			}
		})
	})
}

// BenchmarkNewConnection is 1 KiB on a connection of its own, and reports the
// median.
func BenchmarkNewConnection(b *testing.B) {
	sides(b, func(b *testing.B, through, h2 bool) {
		cl, url := target(b, through, h2, 1<<10)
		fetch(b, cl, url)
		var all []time.Duration
		for b.Loop() {
			cl.CloseIdleConnections()
			start := time.Now()
			fetch(b, cl, url)
			all = append(all, time.Since(start))
		}
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	})
}

// BenchmarkDownload is one long body.
func BenchmarkDownload(b *testing.B) {
	const size = 64 << 20
	sides(b, func(b *testing.B, through, h2 bool) {
		cl, url := target(b, through, h2, size)
		b.SetBytes(size)
		for b.Loop() {
			if n := fetch(b, cl, url); n != size {
				b.Fatal(n)
			}
		}
	})
}

// BenchmarkOpaque is one long body that is not inspected.
func BenchmarkOpaque(b *testing.B) {
	const size = 64 << 20
	c := newCell(b, rules(tcpDB))
	block := bytes.Repeat([]byte("x"), 64<<10)
	c.listen("db.example.com", 5432, func(conn net.Conn) {
		for range size / len(block) {
			if _, err := conn.Write(block); err != nil {
				return
			}
		}
	})
	b.SetBytes(size)
	for b.Loop() {
		conn := c.dial(c.to("db.example.com", 5432))
		if n, err := io.Copy(io.Discard, conn); n != size {
			b.Fatal(n, err)
		}
		_ = conn.Close()
	}
}

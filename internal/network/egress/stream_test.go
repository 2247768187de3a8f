package egress_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

const fullAPI = "{host: api.example.com, port: 443, protocol: rest, access: full}"

// both runs a test with a program that speaks HTTP/1.1, and one that speaks
// HTTP/2.
func both(t *testing.T, f func(t *testing.T, h2 bool)) {
	t.Helper()
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2=%v", h2), func(t *testing.T) {
			t.Parallel()
			f(t, h2)
		})
	}
}

// TestStreams checks that both directions flow while neither has ended: events
// of a server, and a body of which each part waits for the answer to the last.
func TestStreams(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		c := newCell(t, rules(fullAPI))
		next := make(chan struct{})
		c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/events" {
				w.Header().Set("Content-Type", "text/event-stream")
			} else {
				// A length that is known must not make anything wait either.
				w.Header().Set("Content-Length", "30")
			}
			for i := range 3 {
				_, _ = fmt.Fprintf(w, "data: %d\n\n\n", i)
				_ = http.NewResponseController(w).Flush()
				<-next
			}
		}))
		for _, path := range []string{"/events", "/length"} {
			r, err := http.NewRequestWithContext(context.Background(), "GET", "https://"+api+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.client(h2).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				b := make([]byte, 10)
				if _, err := io.ReadFull(res.Body, b); err != nil || string(b) != fmt.Sprintf("data: %d\n\n\n", i) {
					t.Fatalf("%q %v", b, err)
				}
				next <- struct{}{}
			}
			_ = res.Body.Close()
		}
	})
}

func TestDuplex(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(fullAPI))
	c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_ = http.NewResponseController(w).Flush()
		b := make([]byte, 1)
		for {
			n, err := r.Body.Read(b)
			_, _ = w.Write(b[:n])
			_ = http.NewResponseController(w).Flush()
			if err != nil {
				w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
				return
			}
		}
	}))
	pr, pw := io.Pipe()
	r, err := http.NewRequestWithContext(context.Background(), "POST", "https://"+api+"/", pr)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.client(true).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []byte("ping") {
		go func() { _, _ = pw.Write([]byte{b}) }()
		got := []byte{0}
		if _, err := io.ReadFull(res.Body, got); err != nil || got[0] != b {
			t.Fatal(got, err)
		}
	}
	_ = pw.Close()
	if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil || res.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("%q %v %v", rest, err, res.Trailer)
	}
}

// TestTrailersAndInformation checks trailers both ways, that a body is asked for,
// and that other informational answers stay here.
func TestTrailersAndInformation(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		c := newCell(t, rules(fullAPI))
		up := c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Trailer", "X-Sum")
			_, _ = fmt.Fprintf(w, "%s %s", body, r.Trailer.Get("X-Sent"))
			w.Header().Set("X-Sum", "42")
		}))
		var hints, continued int
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got100Continue: func() { continued++ },
			Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
				if code == 103 {
					hints++
				}
				return nil
			},
		})
		r, err := http.NewRequestWithContext(ctx, "POST", "https://"+api+"/", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = -1
		r.Trailer = http.Header{"X-Sent": {"sent"}}
		r.Header.Set("Expect", "100-continue")
		cl := c.client(h2)
		cl.Transport.(*http.Transport).ExpectContinueTimeout = cl.Timeout
		res, err := cl.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || string(body) != "body sent" || res.Trailer.Get("X-Sum") != "42" || hints != 0 || continued == 0 {
			t.Errorf("%q %v trailer %v hints %d continued %d", body, err, res.Trailer, hints, continued)
		}
		if up.requests.Load() != 1 {
			t.Error(up.requests.Load())
		}
	})
}

// TestContinueDenied checks that a program is not asked for the body of a
// request that is denied.
func TestContinueDenied(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(plainAPI))
	up := c.serve(api, 80, http.HandlerFunc(mirror))
	res := raw(c.dial(c.to(api, 80)), "POST /no HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
	if res == nil || res.StatusCode != 403 {
		t.Error(res)
	}
	up.untouched(t)
}

func TestLargeBodies(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		c := newCell(t, rules(fullAPI))
		block := bytes.Repeat([]byte("0123456789abcdef"), 1<<12)
		c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sum := sha256.New()
			n, _ := io.Copy(sum, r.Body)
			w.Header().Set("X-Sum", fmt.Sprintf("%d %x", n, sum.Sum(nil)))
			for range 256 {
				_, _ = w.Write(block)
			}
		}))
		sent := bytes.Repeat(block, 64)
		res, err := c.client(h2).Post("https://"+api+"/", "application/octet-stream", bytes.NewReader(sent))
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		if want := fmt.Sprintf("%d %x", len(sent), sha256.Sum256(sent)); n != 16<<20 || err != nil || res.Header.Get("X-Sum") != want {
			t.Error(n, err, res.Header)
		}
		e := c.find(event.HTTPActivity, func(map[string]any) bool { return true })
		if !strings.HasPrefix(text(e, "message"), "4194304 bytes sent, 16777216 received") {
			t.Error(text(e, "message"))
		}
	})
}

// TestHeaders checks what is passed on of a request's header, and what is not.
func TestHeaders(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(plainAPI))
	got := make(chan http.Header, 1)
	c.serve(api, 80, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	raw(c.dial(c.to(api, 80)), "GET /ok/ HTTP/1.1\r\nHost: api.example.com\r\nConnection: X-Hop\r\nX-Hop: 1\r\nProxy-Authorization: x\r\nX-Forwarded-For: 1.2.3.4\r\nX-Kept: 1\r\nX-Forkcell-Policy: x\r\nTE: trailers\r\n\r\n")
	want := http.Header{"X-Forwarded-For": {"1.2.3.4"}, "X-Kept": {"1"}, "Te": {"trailers"}}
	h := <-got
	delete(h, "Connection")
	if d := cmp.Diff(want, h); d != "" {
		t.Error(d)
	}
}

func TestUpstreamErrors(t *testing.T) {
	t.Parallel()
	for _, q := range []struct {
		name   string
		change func(*cell, *httptest.Server)
		reason string
		hint   string
	}{
		{"wrong name", func(c *cell, s *httptest.Server) {
			leaf, _ := c.hosts.Leaf("other.example.com")
			s.TLS.Certificates = []tls.Certificate{*leaf}
		}, "not valid", ""},
		{"unknown authority", func(c *cell, s *httptest.Server) {
			leaf, _ := c.ca.Leaf(api)
			s.TLS.Certificates = []tls.Certificate{*leaf}
		}, "not valid", ""},
		{"client certificate", func(_ *cell, s *httptest.Server) { s.TLS.ClientAuth = tls.RequireAnyClientCert }, "certificate", "tls: skip"},
		{"client certificate, TLS 1.2", func(_ *cell, s *httptest.Server) {
			s.TLS.ClientAuth, s.TLS.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12
		}, "certificate", "tls: skip"},
	} {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, rules(fullAPI))
			up := c.serve(api, 443, http.HandlerFunc(mirror), func(s *httptest.Server) { q.change(c, s) })
			status, body, header := get(t, c.client(true), "GET", "https://"+api+"/", nil)
			if status != 502 || header.Get("X-Forkcell-Policy") != "failed" || !strings.Contains(body, q.reason) || !strings.Contains(body, q.hint) {
				t.Error(status, header, body)
			}
			if up.requests.Load() != 0 {
				t.Error("the upstream saw a request")
			}
		})
	}
	t.Run("optional client certificate", func(t *testing.T) {
		t.Parallel()
		c := newCell(t, rules(fullAPI))
		c.serve(api, 443, http.HandlerFunc(mirror), func(s *httptest.Server) { s.TLS.ClientAuth = tls.RequestClientCert })
		if status, body, _ := get(t, c.client(true), "GET", "https://"+api+"/", nil); status != 200 {
			t.Error(status, body)
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		c := newCell(t, rules(fullAPI))
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		c.pin(api, 443, l.Addr().String())
		if status, body, _ := get(t, c.client(true), "GET", "https://"+api+"/", nil); status != 502 || !strings.Contains(body, "refused") {
			t.Error(status, body)
		}
	})
}

// TestLeaves checks that a leaf for one host is not shown for another and
// that upstreams' answers do not mix.
func TestLeaves(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(fullAPI, "{host: b.example.com, port: 443, protocol: rest, access: full}"))
	for _, host := range []string{api, "b.example.com"} {
		c.serve(host, 443, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, host) }))
	}
	cl := c.client(true)
	for range 3 {
		for _, host := range []string{api, "b.example.com"} {
			if _, body, _ := get(t, cl, "GET", "https://"+host+"/", nil); body != host {
				t.Errorf("%s answered for %s", body, host)
			}
			conn, err := c.secure(host, 443, host)
			if err != nil {
				t.Fatal(err)
			}
			if leaf := conn.ConnectionState().PeerCertificates[0]; !cmp.Equal(leaf.DNSNames, []string{host}) {
				t.Error(leaf.DNSNames)
			}
		}
	}
}

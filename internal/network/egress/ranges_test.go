package egress_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/network/egress"
)

// stored is what an upstream has, and shown what a cell may see of it.
var (
	stored = strings.Repeat("0123456789", 20) + secret + strings.Repeat("abcdefghij", 20)
	shown  = strings.ReplaceAll(stored, secret, stars)
)

// TestRepeatedInParts has a host serve a value in answers to ranges: each byte is the
// one of the whole answer.
func TestRepeatedInParts(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		text := rules(fullAPI) + tokens
		g, _ := withToken(t, text)
		c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
		c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", `"1"`)
			http.ServeContent(w, r, "x.txt", time.Time{}, strings.NewReader(stored))
		}))
		cl := c.client(h2)
		size := len(stored)
		for _, q := range []struct {
			asked    string
			from, to int
		}{
			{"bytes=0-205", 0, 205},
			{"bytes=206-", 206, size - 1},
			{"bytes=205-206", 205, 206},
			{"bytes=211-300", 211, 300},
			{"bytes=0-0", 0, 0},
			{"bytes=0-", 0, size - 1},
			{"bytes=0-10000", 0, size - 1},
			{fmt.Sprintf("bytes=%d-", size-1), size - 1, size - 1},
			{"bytes=-1", size - 1, size - 1},
			{"bytes=-205", size - 205, size - 1},
			{"bytes=-10000", 0, size - 1},
			{"Bytes=3-4", 3, 4},
		} {
			status, body, header := get(t, cl, "GET", "https://"+api+"/x", nil, "Range", q.asked, "If-Range", `"1"`)
			if status != 206 || body != shown[q.from:q.to+1] || header.Get("Content-Range") != fmt.Sprintf("bytes %d-%d/%d", q.from, q.to, size) {
				t.Errorf("%s: %d %s %q", q.asked, status, header.Get("Content-Range"), body)
			}
		}
		for _, asked := range []string{"bytes=0-205,206-300", "bytes=5-4", "bytes=-0", "bytes=x-", "bytes=-", "lines=1-2", "bytes=+1-5", ""} {
			if status, body, _ := get(t, cl, "GET", "https://"+api+"/x", nil, "Range", asked); status != 200 || body != shown {
				t.Errorf("%s: %d %q", asked, status, body)
			}
		}
		for _, from := range []int{size, size + 1, size + 5000} {
			status, body, header := get(t, cl, "GET", "https://"+api+"/x", nil, "Range", fmt.Sprintf("bytes=%d-", from))
			if status != 416 || strings.Contains(body, "abc") || header.Get("Content-Range") != fmt.Sprintf("bytes */%d", size) {
				t.Errorf("from %d: %d %v %q", from, status, header, body)
			}
		}
		if status, _, header := get(t, cl, "HEAD", "https://"+api+"/x", nil, "Range", "bytes=0-9"); status != 200 || header.Get("Content-Length") != fmt.Sprint(size) {
			t.Error("HEAD:", status, header)
		}
	})
}

// TestRepeatedInOtherParts has a host send other parts than it was asked for.
func TestRepeatedInOtherParts(t *testing.T) {
	t.Parallel()
	text := rules(fullAPI) + tokens
	g, _ := withToken(t, text)
	c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
	c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Range", r.Header.Get("X-Sends"))
		w.WriteHeader(http.StatusPartialContent)
		var first, last int
		if _, err := fmt.Sscanf(r.Header.Get("X-Sends"), "bytes %d-%d/", &first, &last); err == nil && first <= last {
			_, _ = io.WriteString(w, stored[first:last+1])
		}
	}))
	for _, q := range []struct {
		asked, sends string
		status       int
		want         string
	}{
		{"", "bytes 206-300/412", 502, ""},
		{"bytes=206-300", "bytes 206-300/412", 502, ""},
		{"bytes=206-", "bytes 206-411/412", 502, ""},
		{"bytes=-100", "bytes 312-411/412", 502, ""},
		{"bytes=-100", "bytes 0-390/412", 502, ""},
		{"bytes=-100", "bytes 0-411/*", 502, ""},
		{"bytes=206-300", "lines 0-411/412", 502, ""},
		{"bytes=206-300", "bytes 0-411/400", 502, ""},
		{"bytes=206-300", "bytes 300-206/412", 502, ""},
		{"bytes=206-300", "", 502, ""},
		// More than it was asked for, and less: a value at the end may go on.
		{"bytes=206-300", "bytes 0-411/412", 206, shown[206:301]},
		{"bytes=100-300", "bytes 0-204/*", 206, shown[100 : 205-margin()]},
		{"bytes=200-300", "bytes 0-204/*", 502, ""},
	} {
		header := []string{"X-Sends", q.sends}
		if q.asked != "" {
			header = append(header, "Range", q.asked)
		}
		status, body, _ := get(t, c.client(true), "GET", "https://"+api+"/x", nil, header...)
		if status != q.status || status == 206 && body != q.want || status == 502 && !strings.Contains(body, "another part") {
			t.Errorf("%s, %s: %d %q", q.asked, q.sends, status, body)
		}
	}
}

// margin is the length of the longest form of the secret: that in base64.
func margin() int { return len(secret) * 8 / 6 }

// TestPartsOfStores has a host answer in parts as the stores of Azure and S3 do, and
// answers without a body that describe one.
func TestPartsOfStores(t *testing.T) {
	t.Parallel()
	text := rules(fullAPI) + tokens
	g, _ := withToken(t, text)
	c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
	c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/gz":
			w.Header().Set("Content-Encoding", "gzip")
			if r.Method == http.MethodGet {
				w.WriteHeader(http.StatusNotModified)
			}
		case r.URL.Query().Has("partNumber"):
			w.Header().Set("Content-Range", "bytes 0-9/412")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, stored[:10]) // dropped for HEAD
		default:
			if r.Header.Get("Range") != "" {
				t.Error("two ranges")
			}
			r.Header.Set("Range", r.Header.Get("X-Ms-Range"))
			http.ServeContent(w, r, "x.txt", time.Time{}, strings.NewReader(stored))
		}
	}))
	for _, q := range []struct {
		method, at, asked string
		status            int
		want              string
	}{
		{"GET", "/x", "bytes=206-300", 206, shown[206:301]},
		{"GET", "/x", "bytes=0-205", 206, shown[:206]},
		{"GET", "/x", "bytes=0-1,206-300", 200, shown},
		{"GET", "/x?partNumber=1", "", 206, shown[:10]},
		{"HEAD", "/x?partNumber=1", "", 206, ""},
		{"HEAD", "/gz", "", 200, ""},
		{"GET", "/gz", "", 304, ""},
	} {
		var header []string
		if q.asked != "" {
			header = []string{"X-Ms-Range", q.asked, "Range", "bytes=206-207"}
		}
		if status, body, _ := get(t, c.client(true), q.method, "https://"+api+q.at, nil, header...); status != q.status || body != q.want {
			t.Errorf("%s %s %s: %d %q", q.method, q.at, q.asked, status, body)
		}
	}
}

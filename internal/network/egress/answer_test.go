package egress_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

// TestOddAnswers: answers that an upstream may give, to programs that speak either
// version. Each comes to its end, with what was sent after the body.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	for _, q := range []struct {
		name    string
		answer  http.HandlerFunc
		body    string
		trailer string
	}{
		{"announced trailer that never comes", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.WriteString(w, "hello")
		}, "hello", ""},
		{"trailer without a body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			w.WriteHeader(http.StatusOK)
			w.Header().Set("X-Sum", "5")
		}, "", "5"},
		{"offer of another protocol", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Upgrade", "h2,h2c")
			w.Header().Set("Connection", "Upgrade")
			_, _ = io.WriteString(w, "hello")
		}, "hello", ""},
		{"nothing", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "0") }, "", ""},
	} {
		for _, h2 := range []bool{false, true} {
			t.Run(q.name+map[bool]string{false: " 1.1", true: " 2"}[h2], func(t *testing.T) {
				t.Parallel()
				c := newCell(t, rules(fullAPI))
				c.serve(api, 443, q.answer)
				res, err := c.client(h2).Get("https://" + api + "/a")
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				if err != nil || string(body) != q.body || res.Header.Get("Upgrade") != "" {
					t.Errorf("%q, %v, %v", body, err, res.Header)
				}
				if err := res.Body.Close(); err != nil || q.trailer != "" && res.ProtoMajor == 2 && res.Trailer.Get("X-Sum") != q.trailer {
					t.Errorf("%v, %v", res.Trailer, err)
				}
			})
		}
	}
}

// TestMalformedTogether: a request that cannot be read is reported also when it
// came in one piece with the one before it.
func TestMalformedTogether(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(fullAPI))
	up := c.serve(api, 443, http.HandlerFunc(mirror))
	conn, err := c.secure(api, 443, api)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "GET /a HTTP/1.1\r\nHost: "+api+"\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
	said, _ := io.ReadAll(conn)
	if !strings.Contains(string(said), "HTTP/1.1 400 Bad Request") {
		t.Errorf("%q", said)
	}
	c.find(event.HTTPActivity, func(e map[string]any) bool {
		return text(e, "action") == "Denied" && strings.Contains(text(e, "status_detail"), "400 Bad Request")
	})
	if up.requests.Load() != 1 {
		t.Error("the upstream saw more than the first")
	}
}

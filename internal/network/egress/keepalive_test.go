package egress_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

const readOnlyPlain = "{host: api.example.com, port: 80, protocol: rest, access: read-only}"

// TestDeniedBody checks that a denied request with a body, whatever its length,
// leaves a connection that the next request can use, or one that has announced
// its end.
func TestDeniedBody(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		c := newCell(t, rules("{host: api.example.com, port: 443, protocol: rest, access: read-only}"))
		c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
		cl := c.client(h2)
		for _, size := range []int{1, 64 << 10, 256 << 10, 257 << 10, 5 << 20} {
			for _, body := range []io.Reader{bytes.NewReader(make([]byte, size)), io.MultiReader(bytes.NewReader(make([]byte, size)))} {
				if status, text, _ := get(t, cl, "POST", "https://"+api+"/", body); status != 403 {
					t.Fatal(size, status, text)
				}
				if status, text, _ := get(t, cl, "GET", "https://"+api+"/", nil); status != 200 {
					t.Fatal(size, status, text)
				}
			}
		}
	})
}

// TestDeniedBodyPython checks the same with a client that sends all of a body
// before it reads an answer, and never sends a request again.
func TestDeniedBodyPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	c := newCell(t, rules(readOnlyPlain))
	c.serve(api, 80, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	host, port, err := net.SplitHostPort(c.at(c.to(api, 80)))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-I", "-S", "-c", `
import http.client, sys
c = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=20)
head = {"Host": "api.example.com"}
for size in 1, 1000, 65536, 262144, 300000, 5000000:
    for body in b"x" * size, iter([b"x" * size]):
        c.request("POST", "/", body, head, encode_chunked=not isinstance(body, bytes))
        r = c.getresponse()
        assert r.status == 403, r.status
        r.read()
        c.request("GET", "/", headers=head)
        r = c.getresponse()
        assert r.status == 200, r.status
        r.read()
print("done")
`, host, port)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "done" {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDeniedExpect checks a program that waits for the word to send its body:
// none is waited for.
func TestDeniedExpect(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(readOnlyPlain))
	res := raw(c.dial(c.to(api, 80)), "POST / HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	if res == nil || res.StatusCode != 403 || !res.Close {
		t.Errorf("%+v", res)
	}
}

package call_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/api/call"
)

// server answers every request, and keeps what came.
type server struct {
	line, kind, body string
	status           int
	answer           string
	closed           bool
}

func (s *server) Do(r *http.Request) (*http.Response, error) {
	s.line, s.kind, s.body = r.Method+" "+r.URL.String(), r.Header.Get("Content-Type"), ""
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		s.body = string(text)
	}
	return &http.Response{StatusCode: s.status, Body: s}, nil
}

func (s *server) Read(p []byte) (int, error) {
	n := copy(p, s.answer)
	if s.answer = s.answer[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (s *server) Close() error {
	s.closed = true
	return nil
}

// TestSend makes requests of every kind of body.
func TestSend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		r                call.Request
		line, kind, body string
	}{
		{"none", call.Request{Method: "GET", URL: "/v1/cells"}, "GET /v1/cells", "", ""},
		{"query", call.Request{Method: "GET", URL: "http://x/v1/cells", Query: url.Values{"a": {"b c"}}}, "GET http://x/v1/cells?a=b+c", "", ""},
		{"document", call.Request{Method: "POST", URL: "/", Body: map[string]int{"n": 1}}, "POST /", "application/json", `{"n":1}`},
		{"bytes", call.Request{Method: "PUT", URL: "/", Body: []byte("x")}, "PUT /", "application/octet-stream", "x"},
		{"stream", call.Request{Method: "POST", URL: "/", Body: strings.NewReader("x")}, "POST /", "", "x"},
		{"type", call.Request{Method: "POST", URL: "/", Body: []byte("{}"), Header: http.Header{"Content-Type": {"application/json"}}}, "POST /", "application/json", "{}"},
	} {
		s := &server{status: http.StatusOK}
		if _, err := call.Send(t.Context(), s, c.r); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff([]string{c.line, c.kind, c.body}, []string{s.line, s.kind, s.body}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if _, err := call.Send(t.Context(), &server{}, call.Request{Method: "GET", URL: "/", Body: func() {}}); err == nil {
		t.Error("a function was sent")
	}
}

// TestProblem reads what answers report. Only a failure is read, and closed.
func TestProblem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status       int
		answer, code string
		failed       bool
	}{
		{http.StatusOK, `{"code":"busy"}`, "", false},
		{http.StatusSwitchingProtocols, "", "", false},
		{http.StatusFound, "", "", true},
		{http.StatusConflict, `{"code":"busy","later":1}`, "busy", true},
		{http.StatusTeapot, "<html>", "", true},
		{http.StatusTeapot, `{"code":"a b"}`, "", true},
	} {
		s := &server{status: c.status, answer: c.answer}
		resp, err := call.Send(t.Context(), s, call.Request{Method: "GET", URL: "/"})
		if err != nil {
			t.Fatal(err)
		}
		p, failed := call.Problem(resp)
		if failed != c.failed || string(p.Code) != c.code || s.closed != c.failed {
			t.Errorf("%d %s: %v, %q, closed: %v", c.status, c.answer, failed, p.Code, s.closed)
		}
		_ = resp.Body.Close()
	}
}

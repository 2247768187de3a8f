package inspect_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/forkcell/forkcell/internal/network/egress/inspect"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/testkit/golden"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const maxBody = 65536

// request reads a request as it stands in the golden files: a line with method
// and target, headers, an empty line, the body without its last line end.
func request(t *testing.T, data []byte) inspect.Request {
	t.Helper()
	head, body, _ := bytes.Cut(data, []byte("\n\n"))
	lines := strings.Split(strings.TrimRight(string(head), "\n"), "\n")
	method, target, _ := strings.Cut(lines[0], " ")
	r := inspect.Request{Method: method, Header: http.Header{}, ProtoMajor: 2, MaxBody: maxBody}
	r.Path, r.RawQuery, _ = strings.Cut(target, "?")
	for _, line := range lines[1:] {
		name, val, _ := strings.Cut(line, ": ")
		r.Header.Add(name, val)
	}
	if body = bytes.TrimSuffix(body, []byte("\n")); len(body) > 0 {
		r.Body = bytes.NewReader(body)
	}
	return r
}

// describe writes facts, or the reason of a refusal, for the golden files.
func describe(t *testing.T, f policy.Facts, err error) []byte {
	t.Helper()
	var refusal *inspect.Refusal
	switch {
	case errors.As(err, &refusal):
		return []byte("refused: " + refusal.Reason + "\n")
	case err != nil:
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, op := range f.Operations {
		fmt.Fprintf(&b, "operation type=%s name=%s fields=%v persisted=%s\n", op.Type, op.Name, op.Fields, op.Persisted)
	}
	for _, c := range f.Calls {
		fmt.Fprintf(&b, "call service=%s method=%s tool=%s\n", c.Service, c.Method, c.Tool)
	}
	for _, u := range f.Upkeep {
		fmt.Fprintf(&b, "upkeep %s\n", u)
	}
	return b.Bytes()
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]policy.Protocol{
		"graphql": policy.GraphQL, "jsonrpc": policy.JSONRPC, "mcp": policy.ModelContext, "grpc": policy.GRPC,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden.Archive(t, *update, name, func(t *testing.T, data []byte) []byte {
				r := request(t, data)
				res, err := inspect.HTTP(p, r)
				if err == nil && res.Facts.Protocol != p {
					t.Errorf("read as %s", res.Facts.Protocol)
				}
				if _, body, _ := bytes.Cut(data, []byte("\n\n")); err == nil && r.Body != nil && string(res.Body)+"\n" != string(body) {
					t.Errorf("the body to send is %q", res.Body)
				}
				return describe(t, res.Facts, err)
			})
		})
	}
}

func TestMessageGolden(t *testing.T) {
	t.Parallel()
	golden.Archive(t, *update, "message", func(t *testing.T, data []byte) []byte {
		f, err := inspect.GraphQLMessage(data, maxBody)
		return describe(t, f, err)
	})
}

func post(body string) inspect.Request {
	return inspect.Request{
		Method: "POST", Path: "/", Header: http.Header{"Content-Type": {"application/json"}},
		ProtoMajor: 1, Body: strings.NewReader(body), MaxBody: maxBody,
	}
}

// What cannot stand in a readable file, and is wrong for every protocol that is
// JSON.
func TestBytes(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	for name, c := range map[string]struct{ body, want string }{
		"empty":           {"", "the body is not one JSON value"},
		"byte order mark": {"\ufeff{}", "the body starts with a byte order mark"},
		"not UTF-8":       {"{\"query\":\"\xff\"}", "the body is not UTF-8"},
		"UTF-16":          {"{\x00\"\x00q\x00", "the body is not one JSON value"},
		"NUL after":       {`{"query":"{a}","jsonrpc":"2.0","method":"m"}` + "\x00", "the body is not one JSON value"},
		"two values":      {`{"query":"{a}"}{"query":"{b}"}`, "the body is not one JSON value"},
		"deep":            {`{"query":"{a}","variables":{"x":` + deep + `}}`, "the JSON is nested more than 64 levels deep or has more than 200000 values"},
		"long":            {`{"query":"` + strings.Repeat(" ", maxBody) + `"}`, "the body is longer than 65536 bytes"},
		"a key twice":     {`{"params":{"x":1,"x":1}}`, `the JSON has the key "x" twice in one object`},
		"an escaped key":  {`{"query":"{a}","qu\u0065ry":"{b}"}`, `the JSON has the key "query" twice in one object`},
		"half a pair":     {`{"query":"\ud800"}`, "the JSON has half of a surrogate pair"},
		"the other half":  {`{"query":"\udc00"}`, "the JSON has half of a surrogate pair"},
		"two first":       {`{"query":"\ud800\ud800"}`, "the JSON has half of a surrogate pair"},
		"half and text":   {`{"query":"\uD800x"}`, "the JSON has half of a surrogate pair"},
		"comment":         {`{"query":"{a}"/**/}`, "the body is not one JSON value"},
		"trailing comma":  {`{"query":"{a}",}`, "the body is not one JSON value"},
	} {
		for _, p := range []policy.Protocol{policy.GraphQL, policy.JSONRPC, policy.ModelContext} {
			_, err := inspect.HTTP(p, post(c.body))
			var refusal *inspect.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != c.want {
				t.Errorf("%s as %s: %v, want %s", name, p, err, c.want)
			}
		}
	}
}

func TestSurrogatePair(t *testing.T) {
	t.Parallel()
	for _, s := range []string{`\ud83d\ude00`, `\uD83D\uDE00`, `\\ud800`, `\u0041`, `\"\ud83d\ude00`} {
		if _, err := inspect.HTTP(policy.JSONRPC, post(`{"jsonrpc":"2.0","method":"m","params":["`+s+`"]}`)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// A body that breaks off is no fault of its content.
func TestReadError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, c := range []struct {
		p      policy.Protocol
		method string
	}{{policy.GraphQL, "POST"}, {policy.GraphQL, "GET"}, {policy.JSONRPC, "POST"}, {policy.ModelContext, "POST"}} {
		r := post("")
		r.Method, r.Body = c.method, iotest.ErrReader(broken)
		_, err := inspect.HTTP(c.p, r)
		var refusal *inspect.Refusal
		if !errors.Is(err, broken) || errors.As(err, &refusal) {
			t.Errorf("%s %s: %v", c.p, c.method, err)
		}
	}
}

func TestProtocols(t *testing.T) {
	t.Parallel()
	for _, p := range []policy.Protocol{policy.TCP, policy.REST, policy.Websocket} {
		if _, err := inspect.HTTP(p, post("{}")); err == nil {
			t.Errorf("%s was read", p)
		}
	}
}

// The reader stops at the bound, whatever the length of the body.
func TestBound(t *testing.T) {
	t.Parallel()
	body := strings.NewReader(strings.Repeat(" ", 3*maxBody))
	r := post("")
	r.Body = bufio.NewReaderSize(body, 16)
	if _, err := inspect.HTTP(policy.JSONRPC, r); err == nil || body.Len() < maxBody {
		t.Errorf("%v, %d bytes left", err, body.Len())
	}
}

// A reason stands in events: it shows no values.
func TestReasonsKeepValues(t *testing.T) {
	t.Parallel()
	const secret = "SECRET"
	for _, body := range []string{
		`{"query":"SECRET"}`, `{"query":"{a(x:\"SECRET\") \"SECRET\"}"}`, `{"query":"{a}","id":"SECRET"}`,
		`{"query":"{a}","operationName":"SECRET"}`, `{"query":"{...SECRET}"}`, `{"jsonrpc":"SECRET"}`,
		`{"jsonrpc":"2.0","method":" SECRET"}`, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"\u0000SECRET"}}`,
		`SECRET`, `{"jsonrpc":"2.0","method":"m","params":"SECRET"}`,
	} {
		for _, p := range []policy.Protocol{policy.GraphQL, policy.JSONRPC, policy.ModelContext} {
			if _, err := inspect.HTTP(p, post(body)); err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s as %s: %v", body, p, err)
			}
		}
	}
}

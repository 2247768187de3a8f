package inspect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/formatter"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/forkcell/forkcell/internal/network/egress/inspect"
	"github.com/forkcell/forkcell/internal/policy"
)

// seed adds the bodies of a golden file.
func seed(f *testing.F, name string) {
	f.Helper()
	data, err := os.ReadFile("testdata/" + name + ".txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range txtar.Parse(data).Files {
		_, body, found := bytes.Cut(file.Data, []byte("\n\n"))
		if !found {
			body = file.Data
		}
		f.Add(string(body))
	}
}

// reencode writes JSON anew, with Go's escapes and order of keys.
func reencode(t *testing.T, body []byte) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("accepted what is not JSON: %v", err)
	}
	out, err := json.MarshalIndent(v, "\t", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// check reads a body, and reads it again after it was written anew: what was
// accepted must mean the same. A refusal must be one.
func check(t *testing.T, p policy.Protocol, body string) (policy.Facts, bool) {
	t.Helper()
	res, err := inspect.HTTP(p, post(body))
	var refusal *inspect.Refusal
	if err != nil {
		if !errors.As(err, &refusal) || refusal.Reason == "" {
			t.Fatalf("%v", err)
		}
		return policy.Facts{}, false
	}
	if string(res.Body) != body {
		t.Fatal("the body changed")
	}
	if n := len(res.Facts.Operations) + len(res.Facts.Calls) + len(res.Facts.Upkeep); n == 0 {
		t.Fatal("nothing was read")
	}
	again := post(reencode(t, res.Body))
	again.MaxBody *= 16
	res2, err := inspect.HTTP(p, again)
	if err != nil {
		t.Fatalf("written anew it is refused: %v", err)
	}
	if d := cmp.Diff(res.Facts, res2.Facts); d != "" {
		t.Fatalf("written anew it means something else: %s", d)
	}
	return res.Facts, true
}

func FuzzGraphQL(f *testing.F) {
	seed(f, "graphql")
	f.Fuzz(func(t *testing.T, body string) { check(t, policy.GraphQL, body) })
}

// FuzzDocument reads a GraphQL document, and reads it again after the parser's
// own printer wrote it anew.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{
		`{a}`, `query A($x:Int=1){a:b(c:"\u0041")@d{e}...F}fragment F on T{g ...on T{h}}`, `mutation{a(x:"""b\""" """)}`,
		"{a#\n}", `{a(x:["""x""""])}`, `"""d""" query A{a}`, `subscription S{...{a}}`, `{a(x:{y:[1 2.5e3 true null E $v]})}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		facts, ok := check(t, policy.GraphQL, quoted(t, doc))
		if !ok {
			return
		}
		parsed, err := parser.ParseQuery(&ast.Source{Input: doc})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		formatter.NewFormatter(&b).FormatQueryDocument(parsed)
		if _, err := parser.ParseQuery(&ast.Source{Input: b.String()}); err != nil {
			return // the printer does not know how to write everything
		}
		res, err := inspect.HTTP(policy.GraphQL, post(quoted(t, b.String())))
		if err != nil {
			return // nor does it avoid what is refused here
		}
		if d := cmp.Diff(facts, res.Facts); d != "" {
			t.Fatalf("printed anew it means something else: %s\n%s", d, b.String())
		}
	})
}

func quoted(t *testing.T, doc string) string {
	t.Helper()
	out, err := json.Marshal(map[string]string{"query": doc})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func FuzzGraphQLURL(f *testing.F) {
	for _, s := range []string{"query=%7Ba%7D", "query[]=x", "Query=x&id=1", "extensions=%7B%7D&query={a}", "a;b", "queryId=%2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		r := inspect.Request{Method: "GET", Path: "/", RawQuery: raw, Header: http.Header{}}
		res, err := inspect.HTTP(policy.GraphQL, r)
		var refusal *inspect.Refusal
		if err != nil && !errors.As(err, &refusal) || err == nil && len(res.Facts.Operations) == 0 {
			t.Fatalf("%v, %+v", err, res)
		}
	})
}

func FuzzMessage(f *testing.F) {
	seed(f, "message")
	f.Fuzz(func(t *testing.T, body string) {
		facts, err := inspect.GraphQLMessage([]byte(body), maxBody)
		var refusal *inspect.Refusal
		if err != nil {
			if !errors.As(err, &refusal) {
				t.Fatal(err)
			}
			return
		}
		again, err := inspect.GraphQLMessage([]byte(reencode(t, []byte(body))), 16*maxBody)
		if err != nil || !cmp.Equal(facts, again) {
			t.Fatalf("written anew it means something else: %v, %s", err, cmp.Diff(facts, again))
		}
	})
}

func FuzzJSONRPC(f *testing.F) {
	seed(f, "jsonrpc")
	f.Fuzz(func(t *testing.T, body string) {
		facts, ok := check(t, policy.JSONRPC, body)
		for _, c := range facts.Calls {
			if ok && c.Method == "" {
				t.Fatal("a call without a method")
			}
		}
	})
}

func FuzzMCP(f *testing.F) {
	seed(f, "mcp")
	f.Fuzz(func(t *testing.T, body string) {
		facts, _ := check(t, policy.ModelContext, body)
		for _, c := range facts.Calls {
			if (c.Method == "tools/call") != (c.Tool != "") {
				t.Fatalf("%+v", c)
			}
		}
	})
}

func FuzzGRPC(f *testing.F) {
	f.Add("/a.B/C", "application/grpc", "")
	f.Add("a/b", "application/grpc", "")
	f.Add("/a/b/c", "application/grpc+proto", "x=1")
	f.Fuzz(func(t *testing.T, path, kind, query string) {
		r := inspect.Request{
			Method: "POST", Path: path, RawQuery: query, ProtoMajor: 2,
			Header: http.Header{"Content-Type": {kind}},
		}
		res, err := inspect.HTTP(policy.GRPC, r)
		if err != nil {
			return
		}
		if c := res.Facts.Calls[0]; "/"+c.Service+"/"+c.Method != path || res.Body != nil {
			t.Fatalf("%q was read as %+v", path, c)
		}
	})
}

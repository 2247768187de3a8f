package inspect_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/network/egress/inspect"
	"github.com/forkcell/forkcell/internal/policy"
)

// The models below are facts. They are written out in one of the many ways that
// mean the same, and must be read back as they were.

// Generators are made anew each time: rapid's are not for several tests at once.

func nameGen() *rapid.Generator[string] {
	return rapid.StringMatching(`[_A-Za-z][_0-9A-Za-z]{0,8}`).Filter(func(s string) bool { return s != "on" })
}

// gapGen is what may stand between two tokens of GraphQL.
func gapGen() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{" ", "\n", "\r\n", "\t", ",", " , ", " # } mutation { evil \"\"\"\n", "\n#\n"})
}

func operationGen() *rapid.Generator[policy.GraphQLOperation] {
	return rapid.Custom(func(t *rapid.T) policy.GraphQLOperation {
		op := policy.GraphQLOperation{
			Type:   rapid.SampledFrom([]policy.Operation{policy.OperationQuery, policy.OperationMutation, policy.OperationSubscription}).Draw(t, "type"),
			Name:   nameGen().Draw(t, "name"),
			Fields: rapid.SliceOfNDistinct(nameGen(), 1, 5, rapid.ID).Draw(t, "fields"),
		}
		slices.Sort(op.Fields)
		return op
	})
}

// writer writes GraphQL with its choices drawn at random.
type writer struct {
	t         *rapid.T
	fragments []string
	prefix    string
}

func (w *writer) join(tokens ...string) string {
	var b strings.Builder
	for _, tok := range tokens {
		b.WriteString(gapGen().Draw(w.t, "gap"))
		b.WriteString(tok)
	}
	return b.String()
}

func (w *writer) choose(n int) int { return rapid.IntRange(0, n-1).Draw(w.t, "choice") }

// selection writes fields in some order, some under aliases, some in fragments.
func (w *writer) selection(fields []string, depth int) string {
	fields = rapid.Permutation(fields).Draw(w.t, "order")
	var tokens []string
	for i := 0; i < len(fields); i++ {
		rest := fields[i:]
		switch c := w.choose(6); {
		case c == 0 && depth < 3:
			tokens = append(tokens, "...", "on", "Any", "@include(if:false)", w.selection(rest, depth+1))
			i = len(fields)
		case c == 1 && depth < 3:
			name := fmt.Sprintf("%s%d", w.prefix, len(w.fragments))
			w.fragments = append(w.fragments, "")
			at := len(w.fragments) - 1
			w.fragments[at] = w.join("fragment", name, "on", "Any", w.selection(rest, depth+1))
			tokens = append(tokens, "...", name)
			i = len(fields)
		case c == 2:
			tokens = append(tokens, nameGen().Draw(w.t, "alias"), ":", fields[i], `(x:"} mutation { evil",y:["""" # \"""""" 1.5 $v])`)
		case c == 3:
			tokens = append(tokens, fields[i], "{", "evil", "...on X{other}", "}")
		case c == 4:
			tokens = append(tokens, fields[i], fields[i], "@skip(if:true)")
		default:
			tokens = append(tokens, fields[i])
		}
	}
	return w.join("{", w.join(tokens...), "}")
}

func (w *writer) document(ops []policy.GraphQLOperation) string {
	var parts []string
	for _, op := range ops {
		if op.Name == "" && op.Type == policy.OperationQuery && w.choose(2) == 0 {
			parts = append(parts, w.selection(op.Fields, 0))
			continue
		}
		parts = append(parts, w.join(op.Type.String(), op.Name, "($v:[Int!]=[1])", "@d", w.selection(op.Fields, 0)))
	}
	// Fragments may stand before, between and after operations; operations keep
	// their order, which is that of the facts.
	return strings.Join(slices.Insert(parts, w.choose(len(parts)+1), w.fragments...), "\n")
}

// encode writes JSON with keys in some order, escapes and spaces.
func encode(t *rapid.T, v any) string {
	space := rapid.SampledFrom([]string{"", " ", "\n", "\t \r\n"})
	gap := func() string { return space.Draw(t, "space") }
	switch v := v.(type) {
	case map[string]any:
		keys := rapid.Permutation(slices.Sorted(func(yield func(string) bool) {
			for k := range v {
				if !yield(k) {
					return
				}
			}
		})).Draw(t, "keys")
		var parts []string
		for _, k := range keys {
			parts = append(parts, gap()+encodeText(t, k)+gap()+":"+gap()+encode(t, v[k])+gap())
		}
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		var parts []string
		for _, item := range v {
			parts = append(parts, gap()+encode(t, item)+gap())
		}
		return "[" + strings.Join(parts, ",") + "]"
	case string:
		return encodeText(t, v)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func encodeText(t *rapid.T, s string) string {
	every := rapid.IntRange(1, 9).Draw(t, "escape every")
	var b strings.Builder
	b.WriteByte('"')
	for i, c := range s {
		switch {
		case c < ' ' || c == '"' || c == '\\' || i%every == 0 && c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func equal() cmp.Options { return cmp.Options{cmpopts.EquateEmpty()} }

func TestGraphQLProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var want []policy.GraphQLOperation
		var requests []any
		var bodies []map[string]any
		for i := range rapid.IntRange(1, 3).Draw(t, "requests") {
			ops := rapid.SliceOfNDistinct(operationGen(), 1, 3, func(o policy.GraphQLOperation) string { return o.Name }).Draw(t, "operations")
			body := map[string]any{"variables": map[string]any{"query": "mutation{evil}", "Query": 1.5}}
			if len(ops) == 1 && rapid.Bool().Draw(t, "anonymous") {
				ops[0].Name = ""
			} else {
				body["operationName"] = rapid.SampledFrom(ops).Draw(t, "selected").Name
			}
			w := writer{t: t, prefix: fmt.Sprintf("Frag%d_", i)}
			body["query"] = w.document(ops)
			want, requests, bodies = append(want, ops...), append(requests, body), append(bodies, body)
		}
		var whole any = requests
		if len(requests) == 1 && rapid.Bool().Draw(t, "alone") {
			whole = requests[0]
		}
		text := encode(t, whole)
		res, err := inspect.HTTP(policy.GraphQL, post(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if string(res.Body) != text {
			t.Fatalf("the body changed")
		}
		if d := cmp.Diff(want, res.Facts.Operations, equal()); d != "" {
			t.Fatalf("%s: %s", text, d)
		}
		if len(bodies) > 1 {
			return
		}
		// The same by GET.
		params := url.Values{"query": {bodies[0]["query"].(string)}, "variables": {encode(t, bodies[0]["variables"])}}
		if name, ok := bodies[0]["operationName"].(string); ok {
			params.Set("operationName", name)
		}
		got, err := inspect.HTTP(policy.GraphQL, inspect.Request{Method: "GET", Path: "/", RawQuery: params.Encode(), Header: http.Header{}})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(res.Facts, got.Facts); d != "" {
			t.Fatalf("by GET: %s", d)
		}
	})
}

func callGen() *rapid.Generator[policy.Call] {
	return rapid.Custom(func(t *rapid.T) policy.Call {
		if rapid.Bool().Draw(t, "tool") {
			return policy.Call{Method: "tools/call", Tool: nameGen().Draw(t, "name")}
		}
		return policy.Call{Method: rapid.StringMatching(`[!-~]{1,20}`).Filter(func(s string) bool {
			return !strings.Contains(strings.ToLower(s), "call")
		}).Draw(t, "method")}
	})
}

func TestCallsProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(callGen(), 1, 4).Draw(t, "calls")
		var messages []any
		for _, c := range want {
			m := map[string]any{"jsonrpc": "2.0", "method": c.Method}
			if rapid.Bool().Draw(t, "request") {
				m["id"] = rapid.SampledFrom([]any{1, "a", -1.5}).Draw(t, "id")
			}
			if c.Tool != "" {
				m["params"] = map[string]any{"name": c.Tool, "arguments": map[string]any{"name": "evil", "Name": []any{"evil"}}}
			}
			messages = append(messages, m)
		}
		var whole any = messages
		if len(messages) == 1 && rapid.Bool().Draw(t, "alone") {
			whole = messages[0]
		}
		text := encode(t, whole)
		mcp, err := inspect.HTTP(policy.ModelContext, post(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if d := cmp.Diff(want, mcp.Facts.Calls); d != "" || string(mcp.Body) != text {
			t.Fatalf("%s: %s", text, d)
		}
		rpc, err := inspect.HTTP(policy.JSONRPC, post(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for i := range want {
			want[i].Tool = ""
		}
		if d := cmp.Diff(want, rpc.Facts.Calls); d != "" {
			t.Fatalf("%s: %s", text, d)
		}
	})
}

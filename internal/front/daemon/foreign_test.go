package daemon_test

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// hiddenName is the name of a thing in a cell that a token does not see, and one of the
// same form that nothing has.
type hiddenName struct{ kind, hidden, unknown string }

// hiddenID returns the names of an id: the whole of it, and its end.
func hiddenID(kind, id string) []hiddenName {
	const end = 8
	unknown := strings.Repeat("z", end)
	return []hiddenName{{kind, id, id[:len(id)-end] + unknown}, {kind, id[len(id)-end:], unknown}}
}

// operation is the part of an operation's description that says where names can be.
type operation struct {
	Parameters []struct{ In, Name string }
	Body       struct {
		Content map[string]struct{ Schema bodySchema }
	} `json:"requestBody"`
}

type bodySchema struct {
	Ref        string `json:"$ref"`
	Required   []string
	Properties map[string]struct{ Type any }
}

// guesser sends requests with a name in each place that the description of the API has for
// a text, once one that is hidden and once one that is not known.
type guesser struct {
	*testDaemon
	names   []hiddenName
	schemas map[string]bodySchema
	count   int
}

var requestID = regexp.MustCompile(`req_[0-9a-z]+`)

// compare sends a request with either name. Refusals must not tell which it was.
func (g *guesser) compare(method, path, where string, n hiddenName, request func(name string) (path string, body any)) {
	g.Helper()
	g.count++
	var answers []reply
	for _, name := range []string{n.hidden, n.unknown} {
		at, body := request(name)
		r := g.send(method, at, body)
		text := strings.ReplaceAll(requestID.ReplaceAllString(string(r.body), "REQUEST"), name, "NAME")
		answers = append(answers, reply{r.status, r.header, []byte(text)})
	}
	a, b := answers[0], answers[1]
	if a.status < 300 && b.status < 300 {
		return // it is no name there
	}
	if a.status != b.status || string(a.body) != string(b.body) {
		g.Errorf("%s %s: the %s of a hidden cell as %s:\n%d %s\none that is not known:\n%d %s", method, path, n.kind, where, a.status, a.body, b.status, b.body)
	}
}

var inBraces = regexp.MustCompile(`{\w+}`)

// own fills the path of an operation: with a name for one of its kind, or with what the
// token has.
func own(path string, n hiddenName, name string) string {
	return inBraces.ReplaceAllStringFunc(path, func(part string) string {
		kind := strings.Trim(part, "{}")
		switch {
		case kind == n.kind, kind == "session" && n.kind == "cell":
			return url.PathEscape(name)
		case kind == "cell", kind == "session":
			return "a-one"
		}
		return "1"
	})
}

// body returns a body with the fields that an operation needs, and the fields that may have
// a text.
func (g *guesser) body(op operation) (needed map[string]any, texts []string) {
	schema := op.Body.Content["application/json"].Schema
	if schema.Ref != "" {
		schema = g.schemas[schema.Ref[strings.LastIndexByte(schema.Ref, '/')+1:]]
	}
	if schema.Properties == nil {
		return nil, nil
	}
	needed = map[string]any{}
	for field, p := range schema.Properties {
		kinds, _ := p.Type.([]any)
		if kind, ok := p.Type.(string); ok {
			kinds = []any{kind}
		}
		if slices.Contains(kinds, any("string")) {
			texts = append(texts, field)
		}
		if slices.Contains(schema.Required, field) {
			needed[field] = map[any]any{"array": []string{"true"}, "integer": 1, "boolean": true, "string": "a-new"}[kinds[0]]
		}
	}
	slices.Sort(texts)
	// Where these stand is no name, and what they change would change the next answer.
	return needed, slices.DeleteFunc(texts, func(f string) bool { return slices.Contains([]string{"$schema", "workdir", "reason", "stdin"}, f) })
}

// try puts a name in each place of an operation.
func (g *guesser) try(method, path string, op operation, n hiddenName) {
	needed, texts := g.body(op)
	var plain any
	if needed != nil {
		plain = needed
	}
	if own(path, n, "@") != own(path, hiddenName{}, "") {
		g.compare(method, path, "part of the path", n, func(name string) (string, any) { return own(path, n, name), plain })
	}
	for _, p := range op.Parameters {
		if p.In == "query" {
			g.compare(method, path, "parameter "+p.Name, n, func(name string) (string, any) {
				return own(path, hiddenName{}, "") + "?" + p.Name + "=" + url.QueryEscape(name), plain
			})
		}
	}
	for _, field := range texts {
		g.compare(method, path, "field "+field, n, func(name string) (string, any) {
			body := map[string]any{field: name}
			for f, v := range needed {
				if f != field {
					body[f] = v
				}
			}
			return own(path, hiddenName{}, ""), body
		})
	}
}

// TestHiddenNames guesses names of a cell that a token does not see, through every
// operation. The answers are those for names that nothing has.
func TestHiddenNames(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("a-one")
	d.cell("hidden")
	var run api.RunAnswer
	d.want(200, &run, "POST", "/v1/cells/hidden/runs", api.RunBody{Command: []string{"touch", "new"}})
	var doc struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]bodySchema }
	}
	d.want(200, &doc, "GET", "/openapi.json", nil)
	g := &guesser{
		testDaemon: d.token(api.TokenBody{Name: "team-a", Scopes: []string{"admin"}, Cells: "a-"}),
		schemas:    doc.Components.Schemas,
		names:      []hiddenName{{"cell", "hidden", "absent"}},
	}
	for kind, id := range map[string]string{"run": run.RunID, "receipt": run.ReceiptID, "checkpoint": run.CheckpointAfter} {
		g.names = append(g.names, hiddenID(kind, id)...)
	}
	// Others name states of the token's own cell, which is removed then if a guess is one of
	// these names.
	for _, first := range []bool{true, false} {
		for path, methods := range doc.Paths {
			for method, op := range methods {
				if (method == "delete") != first {
					continue
				}
				for _, n := range g.names {
					g.try(strings.ToUpper(method), path, op, n)
				}
			}
		}
	}
	if g.count < 500 {
		t.Errorf("only %d comparisons", g.count)
	}
	d.want(200, nil, "GET", "/v1/cells/a-one", nil) // no guess removed it
}

// TestHiddenRunsBetween pages through runs with many hidden ones between them. Every run
// that the token sees comes once.
func TestHiddenRunsBetween(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("a-one")
	d.cell("hidden")
	var run api.RunAnswer
	d.want(200, &run, "POST", "/v1/cells/hidden/runs", api.RunBody{Command: []string{"true"}})
	e, release, err := local.Open(d.home, local.Write, caller.Caller{Actor: func() string { return "tester" }})
	if err != nil {
		t.Fatal(err)
	}
	err = e.Store.Update(func(tx *store.Tx) error {
		c, err := tx.Cell("a-one")
		if err != nil {
			return err
		}
		r, err := tx.Run(run.RunID)
		hidden := r.CellID
		for i := range 1600 {
			if r.ID, r.CellID = fmt.Sprintf("run_%04d", i), hidden; i%700 == 99 {
				r.CellID = c.ID
			}
			err = errors.Join(err, tx.PutRun(r))
		}
		return err
	})
	if err := errors.Join(err, release()); err != nil {
		t.Fatal(err)
	}
	team := d.token(api.TokenBody{Name: "team-a", Scopes: []string{"read"}, Cells: "a-"})
	for _, limit := range []string{"1", "2", "3", "9"} {
		var got []string
		for cursor := ""; ; {
			var page api.List[api.RunInfo]
			team.want(200, &page, "GET", "/v1/runs?limit="+limit+cursor, nil)
			for _, r := range page.Items {
				got = append(got, r.RunID)
			}
			if page.Next == nil {
				break
			}
			cursor = "&cursor=" + url.QueryEscape(*page.Next)
		}
		if want := []string{"run_0099", "run_0799", "run_1499"}; !slices.Equal(got, want) {
			t.Errorf("limit %s: %q, want %q", limit, got, want)
		}
	}
}

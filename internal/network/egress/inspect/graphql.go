package inspect

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"

	"github.com/forkcell/forkcell/internal/policy"
)

// maxParts bounds the operations or messages of one request.
const maxParts = 100

// idKeys returns the keys under which servers accept the id of a persisted
// query.
func idKeys() []string { return []string{"id", "documentId", "doc_id", "queryId"} }

func graphQLKeys() []string {
	return append([]string{"query", "operationName", "variables", "extensions"}, idKeys()...)
}

// graphQL reads a GraphQL request. A POST has everything in its body, a GET in
// its URL; if both were allowed, servers could choose between two requests.
func graphQL(r Request) (Result, error) {
	params, err := parameters(r.RawQuery, graphQLKeys())
	if err != nil {
		return Result{}, err
	}
	switch r.Method {
	case http.MethodPost:
		if len(params) > 0 {
			return Result{}, refuse("a POST request with GraphQL parameters in its URL")
		}
		body, v, err := jsonBody(r)
		if err != nil {
			return Result{}, err
		}
		ops, err := batch(v)
		return result(body, ops, err)
	case http.MethodGet, http.MethodHead:
		if err := noBody(r); err != nil {
			return Result{}, err
		}
		q, err := fromURL(params)
		if err != nil {
			return Result{}, err
		}
		ops, err := q.operations()
		return result(nil, ops, err)
	}
	return Result{}, refuse("a GraphQL request is a GET or a POST, not %s", show(r.Method))
}

func result(body []byte, ops []policy.GraphQLOperation, err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	return Result{Facts: policy.Facts{Protocol: policy.GraphQL, Operations: ops}, Body: body}, nil
}

// batch reads one request, or a list of them.
func batch(v value) ([]policy.GraphQLOperation, error) {
	if v.kind != list {
		v = value{kind: list, items: []value{v}}
	}
	if len(v.items) == 0 || len(v.items) > maxParts {
		return nil, refuse("a batch has 1 to %d requests", maxParts)
	}
	var out []policy.GraphQLOperation
	for _, item := range v.items {
		q, err := fromJSON(item)
		if err != nil {
			return nil, err
		}
		ops, err := q.operations()
		if err != nil {
			return nil, err
		}
		if out = append(out, ops...); len(out) > maxParts {
			return nil, refuse("the request has more than %d operations", maxParts)
		}
	}
	return out, nil
}

// query is one GraphQL request.
type query struct {
	document string
	given    bool // of document
	name     string
	ids      []string
	// hash is that of an automatic persisted query, which may include its
	// document.
	hash string
}

func fromJSON(v value) (query, error) {
	var q query
	if err := v.checkKeys("the request", graphQLKeys()...); err != nil {
		return q, err
	}
	for i, key := range v.keys {
		item := v.items[i]
		switch key {
		case "query":
			if item.kind != text {
				return q, refuse("query is not a string")
			}
			q.document, q.given = item.text, true
		case "operationName":
			if item.kind != text && item.kind != null {
				return q, refuse("operationName is not a string")
			}
			q.name = item.text
		case "variables":
			if item.kind != object && item.kind != null {
				return q, refuse("variables is not an object")
			}
		case "extensions":
			if err := q.extensions(item); err != nil {
				return q, err
			}
		default:
			if item.kind != text {
				return q, refuse("%s is not a string", key)
			}
			q.ids = append(q.ids, item.text)
		}
	}
	return q, nil
}

// fromURL reads a request from parameters. An empty one is ignored, unless it
// would be executed.
func fromURL(params map[string]string) (query, error) {
	q := query{name: params["operationName"]}
	q.document, q.given = params["query"]
	for _, key := range idKeys() {
		if id, ok := params[key]; ok {
			q.ids = append(q.ids, id)
		}
	}
	for _, key := range []string{"variables", "extensions"} {
		if params[key] == "" {
			continue
		}
		v, err := parse([]byte(params[key]))
		switch {
		case err != nil:
			return q, err
		case v.kind != object && v.kind != null:
			return q, refuse("%s is not an object", key)
		case key == "extensions":
			if err := q.extensions(v); err != nil {
				return q, err
			}
		}
	}
	return q, nil
}

func (q *query) extensions(v value) error {
	if v.kind == null {
		return nil
	}
	if err := v.checkSpellings("extensions", "persistedQuery"); err != nil {
		return err
	}
	p, ok := v.get("persistedQuery")
	if !ok {
		return nil
	}
	if err := p.checkKeys("persistedQuery", "version", "sha256Hash"); err != nil {
		return err
	}
	hash, _ := p.get("sha256Hash")
	if version, _ := p.get("version"); version.kind != number {
		return refuse("persistedQuery has no version")
	}
	if b, err := hex.DecodeString(hash.text); err != nil || len(b) != sha256.Size || hex.EncodeToString(b) != hash.text {
		return refuse("sha256Hash is not a SHA-256 in lower case")
	}
	q.hash = hash.text
	return nil
}

// operations returns every operation that a server could run for the request.
func (q query) operations() ([]policy.GraphQLOperation, error) {
	switch n := len(q.ids); {
	case n > 1, n == 1 && q.hash != "", n == 1 && q.given:
		return nil, refuse("the request names its query in two ways")
	case !q.given && q.hash != "":
		return q.persistedOperations(q.hash)
	case n == 1:
		return q.persistedOperations(q.ids[0])
	case !q.given:
		return nil, refuse("the request has no query")
	}
	if q.hash != "" {
		if sum := sha256.Sum256([]byte(q.document)); hex.EncodeToString(sum[:]) != q.hash {
			return nil, refuse("sha256Hash is not that of the query")
		}
	}
	return operations(q.document, q.name)
}

func (q query) persistedOperations(id string) ([]policy.GraphQLOperation, error) {
	if !visible(id) || len(id) > 1024 {
		return nil, refuse("the id of a query is not 1 to 1024 visible ASCII characters")
	}
	if q.name != "" && !name(q.name) {
		return nil, refuse("operationName is not a name")
	}
	return []policy.GraphQLOperation{{Name: q.name, Persisted: id}}, nil
}

// visible reports whether s has visible ASCII characters only, and at least one.
func visible(s string) bool {
	return s != "" && !slices.ContainsFunc([]byte(s), func(c byte) bool { return c <= ' ' || c >= 0x7f })
}

// name reports whether s is a name of GraphQL and of protocol buffers.
func name(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

// GraphQLMessage reads a text message that a client sends on a websocket, of
// graphql-transport-ws or of the older graphql-ws.
func GraphQLMessage(data []byte, maxBody int64) (policy.Facts, error) {
	f := policy.Facts{Protocol: policy.GraphQL}
	if int64(len(data)) > maxBody {
		return f, refuse("the message is longer than %d bytes", maxBody)
	}
	v, err := parse(data)
	if err != nil {
		return f, err
	}
	if err := v.checkKeys("the message", "type", "id", "payload"); err != nil {
		return f, err
	}
	switch t, _ := v.get("type"); t.text {
	case "connection_init", "connection_terminate", "ping", "pong", "complete", "stop":
		f.Upkeep = []string{t.text}
	case "subscribe", "start":
		payload, _ := v.get("payload")
		q, err := fromJSON(payload)
		if err != nil {
			return f, err
		}
		f.Operations, err = q.operations()
		if err != nil {
			return policy.Facts{}, err
		}
	default:
		return f, refuse("the message has a type that clients do not send")
	}
	return f, nil
}

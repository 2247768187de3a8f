package inspect

import (
	"errors"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/forkcell/forkcell/internal/policy"
)

// maxTokens bounds the work on one document.
const maxTokens = 20_000

// operations returns all operations of a GraphQL document, also those that the
// name does not select: the server decides which one runs.
func operations(document, selected string) ([]policy.GraphQLOperation, error) {
	if err := unambiguous(document); err != nil {
		return nil, err
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: document}, maxTokens)
	if err != nil {
		return nil, syntax(err)
	}
	if len(doc.Operations) == 0 || len(doc.Operations) > maxParts {
		return nil, refuse("a GraphQL document has 1 to %d operations", maxParts)
	}
	fragments, err := index(doc.Fragments)
	if err != nil {
		return nil, err
	}
	var out []policy.GraphQLOperation
	for _, op := range doc.Operations {
		if slices.ContainsFunc(out, func(o policy.GraphQLOperation) bool { return o.Name == op.Name || o.Name == "" || op.Name == "" }) {
			return nil, refuse("the GraphQL document has two operations with the same name, or one without a name beside another")
		}
		roots := rootFields{fragments: fragments, seen: map[string]bool{}}
		if err := roots.collect(op.SelectionSet); err != nil {
			return nil, err
		}
		slices.Sort(roots.names)
		out = append(out, policy.GraphQLOperation{Type: operationType(op.Operation), Name: op.Name, Fields: slices.Compact(roots.names)})
	}
	switch {
	case selected == "" && len(out) > 1:
		return nil, refuse("the GraphQL document has %d operations, and operationName selects none", len(out))
	case selected != "" && !slices.ContainsFunc(out, func(o policy.GraphQLOperation) bool { return o.Name == selected }):
		return nil, refuse("operationName selects an operation that the GraphQL document does not have")
	}
	return out, nil
}

// syntax returns where a document is wrong. It leaves the parser's text out,
// which quotes the document and may contain secrets.
func syntax(err error) error {
	var e *gqlerror.Error
	if errors.As(err, &e) && len(e.Locations) > 0 {
		return refuse("the GraphQL document is not valid in line %d, column %d", e.Locations[0].Line, e.Locations[0].Column)
	}
	return refuse("the GraphQL document is not valid or has more than %d tokens", maxTokens)
}

func operationType(op ast.Operation) policy.Operation {
	switch op {
	case ast.Mutation:
		return policy.OperationMutation
	case ast.Subscription:
		return policy.OperationSubscription
	case ast.Query:
	}
	return policy.OperationQuery
}

func index(list ast.FragmentDefinitionList) (map[string]*ast.FragmentDefinition, error) {
	out := make(map[string]*ast.FragmentDefinition, len(list))
	for _, f := range list {
		if out[f.Name] != nil {
			return nil, refuse("the GraphQL document has two fragments with the same name")
		}
		if len(f.VariableDefinition) > 0 {
			return nil, refuse("the GraphQL document has a fragment with variables, which is no part of the language")
		}
		out[f.Name] = f
	}
	return out, nil
}

// rootFields collects the fields of an operation's first level. It ignores
// conditions: a field that may be skipped may also run.
type rootFields struct {
	fragments map[string]*ast.FragmentDefinition
	// seen are the fragments that were collected; it also ends cycles.
	seen  map[string]bool
	names []string
}

func (r *rootFields) collect(set ast.SelectionSet) error {
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			r.names = append(r.names, s.Name)
		case *ast.InlineFragment:
			if err := r.collect(s.SelectionSet); err != nil {
				return err
			}
		case *ast.FragmentSpread:
			if r.seen[s.Name] {
				continue
			}
			r.seen[s.Name] = true
			f := r.fragments[s.Name]
			if f == nil {
				return refuse("the GraphQL document uses a fragment that it does not have")
			}
			if err := r.collect(f.SelectionSet); err != nil {
				return err
			}
		}
	}
	return nil
}

// unambiguous refuses text that GraphQL lexers read differently: characters
// that end a line only for some, byte order marks, and more than three
// quotation marks at the end of a block string. By the specification such a
// string ends at the first three; for the parser used here it ends at the last
// three.
func unambiguous(doc string) error {
	for i, c := range doc {
		switch {
		case c == '\t' || c == '\n':
		case c == '\r' && strings.HasPrefix(doc[i+1:], "\n"):
		case c < ' ' || c == 0x7f || c == 0x85 || c == '\u2028' || c == '\u2029' || c == '\ufeff':
			return refuse("the GraphQL document has a control character, a byte order mark or an unusual line end")
		}
	}
	for doc != "" {
		i := strings.IndexAny(doc, "#\"")
		if i < 0 {
			return nil
		}
		doc = doc[i:]
		switch {
		case doc[0] == '#':
			_, doc, _ = strings.Cut(doc, "\n")
		case strings.HasPrefix(doc, `"""`):
			rest, ok := blockString(doc[3:])
			if !ok {
				return refuse("the GraphQL document has a block string that does not end, or ends with more than three quotation marks")
			}
			doc = rest
		default:
			rest, ok := plainString(doc[1:])
			if !ok {
				return refuse("the GraphQL document has a string that does not end")
			}
			doc = rest
		}
	}
	return nil
}

// blockString returns the text after a block string.
func blockString(s string) (rest string, ok bool) {
	for s != "" {
		switch {
		case strings.HasPrefix(s, `\"""`):
			s = s[4:]
		case strings.HasPrefix(s, `"""`):
			return s[3:], !strings.HasPrefix(s[3:], `"`)
		default:
			s = s[1:]
		}
	}
	return "", false
}

// plainString returns the text after a string.
func plainString(s string) (rest string, ok bool) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[i+1:], true
		case '\n', '\r':
			return "", false
		}
	}
	return "", false
}

package injection

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// document is one file as tables of keys, before their meaning is checked.
type document []table

// table is a part of a document with one header. The first table of a document
// has no header and the name "".
type table struct {
	name string
	line int
	keys []pair
}

type pair struct {
	key   string
	line  int
	value any // bool, int64, string or []string
}

// problem is a fault of a document.
type problem struct {
	line int
	text string
}

func (p *problem) Error() string { return fmt.Sprintf("line %d: %s", p.line, p.text) }

func bad(line int, format string, args ...any) error {
	return &problem{line, fmt.Sprintf(format, args...)}
}

// parse reads the subset of TOML that policies use: plain keys, strings of one
// line, booleans, integers, arrays of strings, and tables. The only array of tables
// is copies.
func parse(text []byte) (document, error) {
	// The whole language first: the tree below does not check duplicates.
	if err := toml.Unmarshal(text, &map[string]any{}); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			line, _ := at.Position()
			return nil, bad(line, "%s", strings.TrimPrefix(at.Error(), "toml: "))
		}
		return nil, bad(1, "%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	r := reader{}
	r.parser.Reset(text)
	doc := document{{}}
	for r.parser.NextExpression() {
		n := r.parser.Expression()
		last := &doc[len(doc)-1]
		if n.Kind == unstable.KeyValue {
			p, err := r.pair(n)
			if err != nil {
				return nil, err
			}
			last.keys = append(last.keys, p)
			continue
		}
		t, err := r.header(n)
		if err != nil {
			return nil, err
		}
		doc = append(doc, t)
	}
	if err := r.parser.Error(); err != nil {
		return nil, bad(1, "%s", err)
	}
	return doc, nil
}

type reader struct{ parser unstable.Parser }

// name returns the parts of a key and where the first one is.
func (r *reader) name(n *unstable.Node) (parts []string, at unstable.Position) {
	for it := n.Key(); it.Next(); {
		if parts == nil {
			at = r.parser.Shape(it.Node().Raw).Start
		}
		parts = append(parts, string(it.Node().Data))
	}
	return parts, at
}

func (r *reader) pair(n *unstable.Node) (pair, error) {
	parts, at := r.name(n)
	if len(parts) != 1 {
		return pair{}, bad(at.Line, "dotted keys are not used here; write a table")
	}
	p := pair{key: parts[0], line: at.Line}
	var err error
	p.value, err = r.value(n.Value(), at.Line)
	return p, err
}

func (r *reader) value(n *unstable.Node, line int) (any, error) {
	switch n.Kind {
	case unstable.String:
		return r.text(n, line)
	case unstable.Bool:
		return string(n.Data) == "true", nil
	case unstable.Integer:
		i, err := strconv.ParseInt(string(n.Data), 10, 64)
		if err != nil {
			return nil, bad(line, "only decimal integers are used here")
		}
		return i, nil
	case unstable.Array:
		list := []string{}
		for it := n.Children(); it.Next(); {
			if it.Node().Kind != unstable.String {
				return nil, bad(line, "an array holds strings")
			}
			s, err := r.text(it.Node(), line)
			if err != nil {
				return nil, err
			}
			list = append(list, s)
		}
		return list, nil
	case unstable.InlineTable:
		return nil, bad(line, "inline tables are not used here; write a table")
	default:
		return nil, bad(line, "a value is a string, a boolean, an integer or an array of strings")
	}
}

// text returns a string of one line.
func (r *reader) text(n *unstable.Node, line int) (string, error) {
	raw := string(r.parser.Raw(n.Raw))
	if strings.HasPrefix(raw, `"""`) || strings.HasPrefix(raw, `'''`) {
		return "", bad(line, "strings of several lines are not used here")
	}
	s := string(n.Data)
	for _, c := range s {
		if c < ' ' || c == 0x7f || c == '\u0085' || c == '\u2028' || c == '\u2029' {
			return "", bad(line, "the string holds a control character or a line end")
		}
	}
	return s, nil
}

func (r *reader) header(n *unstable.Node) (table, error) {
	parts, at := r.name(n)
	t := table{name: strings.Join(parts, "."), line: at.Line}
	known := len(parts) == 1 && (t.name == "documents" || t.name == "ssh" || t.name == "credentials" || t.name == "network")
	credential := len(parts) == 2 && parts[0] == "credentials"
	switch {
	case t.name == "copies" && n.Kind != unstable.ArrayTable:
		return t, bad(t.line, "copies is an array of tables: [[copies]]")
	case t.name == "copies":
	case n.Kind == unstable.ArrayTable:
		return t, bad(t.line, "%s is not an array of tables; only copies is", strconv.Quote(t.name))
	case !known && !credential:
		return t, bad(t.line, "unknown table %s; known are documents, credentials, credentials.KEY, ssh, copies and network", strconv.Quote(t.name))
	}
	return t, nil
}

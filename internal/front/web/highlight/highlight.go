// Package highlight finds the words of source code that pages show in colour: keywords,
// strings, comments, numbers. The state machine is that of chroma. The rules are here, few
// and made once when they are needed: chroma's own collection takes longer to initialise
// than a whole command may.
//
// It must not know pages, files or cells. The text is untrusted: the rules take
// time in proportion to it, and a deadline ends the search.
package highlight

import (
	"path"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/chroma/v2"
)

// The classes of spans.
const (
	Keyword = "hk"
	String  = "hs"
	Comment = "hc"
	Number  = "hn"
	Type    = "ht"
)

// Span is a part of a text, from a byte to before another, with a class.
type Span struct {
	From, To int
	Class    string
}

// Language has the rules of a language.
type Language struct {
	make func() *chroma.RegexLexer
}

// For returns the language of a file by its name; nil if it is not known.
func For(name string) *Language {
	base := strings.ToLower(path.Base(name))
	if l := languages()[base]; l != nil {
		return l
	}
	return languages()[path.Ext(base)]
}

// every is how many words are taken between two looks at the clock.
const every = 64

// Spans returns the coloured parts of a text, in order. It ends early at the deadline,
// and where the rules do not fit: the rest has no colour then.
func (l *Language) Spans(text string, deadline time.Time) []Span {
	if !time.Now().Before(deadline) {
		return nil
	}
	next, err := l.make().Tokenise(&chroma.TokeniseOptions{State: "root"}, text)
	if err != nil {
		return nil
	}
	var spans []Span
	at := 0
	for n := 1; ; n++ {
		token := next()
		if token == chroma.EOF || !strings.HasPrefix(text[at:], token.Value) || n%every == 0 && time.Now().After(deadline) {
			return spans
		}
		end := at + len(token.Value)
		if class := classOf(token.Type); class != "" {
			spans = add(spans, Span{at, end, class})
		}
		at = end
	}
}

// ByLine divides the spans of a text among its lines.
func ByLine(spans []Span, lines []string) [][]Span {
	out := make([][]Span, len(lines))
	at := 0 // where the line begins
	for i, l := range lines {
		end := at + len(l)
		for len(spans) > 0 && spans[0].From < end {
			s := spans[0]
			if from := max(s.From, at); from < min(s.To, end) {
				out[i] = append(out[i], Span{From: from - at, To: min(s.To, end) - at, Class: s.Class})
			}
			if s.To > end {
				break // it goes on in the next line
			}
			spans = spans[1:]
		}
		at = end + 1
	}
	return out
}

// add appends a span, or makes the last one longer.
func add(spans []Span, s Span) []Span {
	if last := len(spans) - 1; last >= 0 && spans[last].Class == s.Class && spans[last].To == s.From {
		spans[last].To = s.To
		return spans
	}
	return append(spans, s)
}

func classOf(t chroma.TokenType) string {
	switch {
	case t.InCategory(chroma.Comment):
		return Comment
	case t == chroma.KeywordType:
		return Type
	case t.InCategory(chroma.Keyword):
		return Keyword
	case t.InSubCategory(chroma.LiteralString):
		return String
	case t.InSubCategory(chroma.LiteralNumber):
		return Number
	}
	return ""
}

// languages maps names and endings of files to languages.
var languages = sync.OnceValue(func() map[string]*Language {
	found := map[string]*Language{}
	for _, g := range grammars() {
		l := &Language{make: sync.OnceValue(g.lexer)}
		for name := range strings.FieldsSeq(g.names) {
			found[name] = l
		}
	}
	return found
})

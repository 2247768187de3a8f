package highlight

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func soon() time.Time { return time.Now().Add(time.Minute) }

// shown returns a text with its coloured parts in brackets.
func shown(name, text string) string {
	var b strings.Builder
	at := 0
	for _, s := range For(name).Spans(text, soon()) {
		b.WriteString(text[at:s.From] + "[" + s.Class + " " + text[s.From:s.To] + "]")
		at = s.To
	}
	return b.String() + text[at:]
}

func TestSpans(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, text, want string }{
		{"a.go", "func f(x int) { return \"a\\\"b\" } // no\n/* one\ntwo */ 0x1F 'a' `r\nw`", "[hk func] f(x [ht int]) { [hk return] [hs \"a\\\"b\"] } [hc // no]\n[hc /* one\ntwo */] [hn 0x1F] [hs 'a'] [hs `r\nw`]"},
		{"dir/x.py", "def f(self): # c\n  \"\"\"long\n\"q\" text\"\"\"\n  return 'x' + 1.5e3", "[hk def] f([ht self]): [hc # c]\n  [hs \"\"\"long\n\"q\" text\"\"\"]\n  [hk return] [hs 'x'] + [hn 1.5e3]"},
		{"a.TS", "const s = `a${b}`; if (x) {}", "[hk const] s = [hs `a${b}`]; [hk if] (x) {}"},
		{"m.rs", "fn f<'a>(x: &'a str) {}", "[hk fn] f<'a>(x: &'a [ht str]) {}"},
		{"run.sh", "if [ $# -gt 1 ]; then echo \"a\nb\"; fi # end", "[hk if] [ $# -gt [hn 1] ]; [hk then] [ht echo] [hs \"a\nb\"]; [hk fi] [hc # end]"},
		{"Makefile", "all: # c", "all: [hc # c]"},
		{"p.yaml", "a: \"b\" # c\nd: true", "a: [hs \"b\"] [hc # c]\nd: [ht true]"},
		{"q.sql", "SELECT a FROM t -- c", "[hk SELECT] a [hk FROM] t [hc -- c]"},
		{"x.html", "<!-- c --><a href=\"x\">if</a>", "[hc <!-- c -->][hk <a] href=[hs \"x\"][hk >]if[hk </a>]"},
		{"x.json", `{"a": [1, null]}`, `{[hs "a"]: [[hn 1], [ht null]]}`},
		{"crlf.go", "var x\r\nvar y\r\n", "[hk var] x\r\n[hk var] y\r\n"},
		{"open.go", "\"never closed", "[hs \"never closed]"},
		{"open2.go", "/* never closed", "[hc /* never closed]"},
	}
	for _, c := range cases {
		if diff := cmp.Diff(c.want, shown(c.name, c.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	for _, name := range []string{"", "go", "a.txt", "README", "a.go.orig"} {
		if For(name) != nil {
			t.Errorf("%q has a language", name)
		}
	}
}

// all returns each language once, by one of its names.
func all() map[string]*Language {
	found := map[string]*Language{}
	for _, g := range grammars() {
		name := "x" + strings.Fields(g.names)[0]
		found[name] = For(name)
	}
	return found
}

// TestHostile: whatever a text is, its spans lie in it one after the other, and take time
// in proportion to it.
func TestHostile(t *testing.T) {
	t.Parallel()
	const size = 8 << 10
	seeds := []string{
		"\"", "'", "`", "\\", "\\\"", "/*", "*/", "/", "#", "<", "<a ", "<!--", "-", "--", "a", "1", "1e", "0x", "$", "${", "\"\"\"", "'''", "\x00", "\xff", "\u202e", "é", "\r", "\n", "\t", " ", "@", ".", "1.", "a\"", "\\x", "func ", "<a '", "#include ",
	}
	for name, l := range all() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, seed := range seeds {
				text := strings.Repeat(seed, size/len(seed))
				begin := time.Now()
				spans := l.Spans(text, soon())
				at := 0
				for _, s := range spans {
					if s.From < at || s.To <= s.From || s.To > len(text) {
						t.Fatalf("%q: %+v after %d", seed, s, at)
					}
					at = s.To
				}
				if took := time.Since(begin); took > 10*time.Second {
					t.Errorf("%q took %s", seed, took)
				}
			}
		})
	}
}

// TestDeadline: after it nothing is coloured.
func TestDeadline(t *testing.T) {
	t.Parallel()
	if spans := For("a.go").Spans("func", time.Now()); len(spans) > 0 {
		t.Errorf("%v", spans)
	}
	text := strings.Repeat("func x ", 1<<17)
	late := For("a.go").Spans(text, time.Now().Add(time.Millisecond))
	whole := slices.ContainsFunc(late, func(s Span) bool { return s.To > len(text)/2 })
	if whole {
		t.Errorf("%d spans in a millisecond", len(late))
	}
}

func FuzzSpans(f *testing.F) {
	f.Add("a.go", "func \"")
	f.Add("x.html", "<a href='")
	f.Add("a.go", "/* one\n\ntwo */ func f()\n\"a\" 1")
	f.Fuzz(func(t *testing.T, name, text string) {
		l := For(name)
		if l == nil {
			return
		}
		spans := l.Spans(text, soon())
		want := classes(t, text, spans)
		lines := strings.Split(text, "\n")
		var got []string
		for i, of := range ByLine(slices.Clone(spans), lines) {
			got = append(got, classes(t, lines[i], of)...)
			if i < len(lines)-1 {
				got = append(got, want[len(got)]) // of the end of the line
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("by line the text has the classes %q, as a whole %q", got, want)
		}
	})
}

// classes returns the class of each byte of a text. The spans are in order, and neither
// empty nor beyond the text.
func classes(t *testing.T, text string, spans []Span) []string {
	t.Helper()
	list, at := make([]string, len(text)), 0
	for _, s := range spans {
		if s.From < at || s.To <= s.From || s.To > len(text) {
			t.Fatalf("%+v after %d of %d", s, at, len(text))
		}
		for at = s.From; at < s.To; at++ {
			list[at] = s.Class
		}
	}
	return list
}

func BenchmarkSpans(b *testing.B) {
	text := strings.Repeat("\tif err := store.Update(func(tx *Tx) error { return tx.Put(\"name\", 17) }); err != nil { // a comment\n", 300)
	l := For("a.go")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		l.Spans(text, soon())
	}
}

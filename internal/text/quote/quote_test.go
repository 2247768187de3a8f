package quote_test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func TestPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"a/b.txt", "a/b.txt"},
		{"with space", "with space"},
		{"größe/日本", "größe/日本"},
		{"", `""`},
		{" lead", `" lead"`},
		{"trail ", `"trail "`},
		{"two  spaces", `"two  spaces"`},
		{"a -> b", `"a -> b"`},
		{"a\nb", `"a\nb"`},
		{"esc\x1b[31m", `"esc\x1b[31m"`},
		{"bidi\u202etxt.exe", `"bidi\u202etxt.exe"`},
		{"isolate\u2066x", `"isolate\u2066x"`},
		{"zero\u200bwidth", `"zero\u200bwidth"`},
		{"filler\u3164", `"filler\u3164"`},
		{"tag\U000e0041", `"tag\U000e0041"`},
		{"bad\xff\xfe", `"bad\xff\xfe"`},
		{`quote"d`, `"quote\"d"`},
		{`back\slash`, `"back\\slash"`},
		{"c1\u009b2J", `"c1\u009b2J"`},
		{"nbsp\u00a0x", `"nbsp\u00a0x"`},
		{"line\u2028sep", `"line\u2028sep"`},
		{"\u0301mark", `"\u0301mark"`},
		{"e\u0301", "e\u0301"},
		{"del\x7f", `"del\x7f"`},
	} {
		if got := quote.Path(c.in); got != c.want {
			t.Errorf("Path(%q) = %s, want %s", c.in, got, c.want)
		}
	}
}

func TestLineContent(t *testing.T) {
	t.Parallel()
	in := "a\tb\\n\x1b]0;x\a|`\u202e"
	if got, want := quote.Line(in), `a\tb\n\x1b]0;x\x07|`+"`"+`\u202e`; got != want {
		t.Errorf("Line = %s, want %s", got, want)
	}
	if got, want := quote.Content(in), "a\tb"+`\\n\x1b]0;x\x07|`+"`"+`\u202e`; got != want {
		t.Errorf("Content = %s, want %s", got, want)
	}
	if !quote.Visible("a\tb") || quote.Visible("a\rb") || quote.Visible("a\nb") {
		t.Error("Visible: tabs show, line ends do not")
	}
}

// A real shell must see the same arguments.
func TestArgvThroughShell(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	argv := []string{"plain", "", "a b", "it's", "$HOME `id`", "nl\nx", "esc\x1b", "\xff\xfe", "ünï", "back\\slash", "q'\x01", "*", "~", "x\u202ey"}
	line := quote.Argv(argv)
	if strings.ContainsAny(line, "\n\x1b") || strings.Contains(line, "\u202e") {
		t.Fatalf("the line can draw: %q", line)
	}
	cmd := exec.Command(bash, "-c", `printf '%s\0' `+line)
	cmd.Env = []string{"LC_ALL=C.UTF-8"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(argv, "\x00") + "\x00"; string(out) != want {
		t.Errorf("the shell saw %q, want %q", out, want)
	}
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a", "a\nb", "\xff", "\u202e", "-> ", "`|`", "\U000e0041", "\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := quote.Path(s)
		back := p
		if strings.HasPrefix(p, `"`) {
			var err error
			if back, err = strconv.Unquote(p); err != nil {
				t.Fatalf("Path(%q) = %s: %v", s, p, err)
			}
		}
		if back != s {
			t.Fatalf("Path(%q) reads back as %q", s, back)
		}
		for _, out := range []string{p, quote.Line(s), quote.Arg(s), quote.Content(s)} {
			if !utf8.ValidString(out) || !quote.Visible(out) {
				t.Fatalf("%q gives %q, which can draw", s, out)
			}
		}
	})
}

package quote_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/text/quote"
)

// through writes a text in pieces of a size to a writer, and closes it.
func through(t *testing.T, text string, size int, open func(io.Writer) io.WriteCloser) string {
	t.Helper()
	var b bytes.Buffer
	w := open(&b)
	for rest := []byte(text); len(rest) > 0; {
		n := min(size, len(rest))
		if wrote, err := w.Write(rest[:n]); wrote != n || err != nil {
			t.Fatal(wrote, err)
		}
		rest = rest[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// checkStream writes each text whole and byte by byte.
func checkStream(t *testing.T, open func(io.Writer) io.WriteCloser, texts map[string]string) {
	t.Helper()
	for text, want := range texts {
		for _, size := range []int{1, 3, len(text) + 1} {
			if got := through(t, text, size, open); got != want {
				t.Errorf("%q in pieces of %d:\n got %q\nwant %q", text, size, got, want)
			}
		}
	}
}

func TestColours(t *testing.T) {
	t.Parallel()
	checkStream(t, func(w io.Writer) io.WriteCloser { return quote.NewColours(w) }, map[string]string{
		"plain\ttext\nä 日本 😀\n":             "plain\ttext\nä 日本 😀\n",
		"dos\r\nbar\rx":                     "dos\nbar\\rx",
		"\x1b[31mred\x1b[0m":                "\x1b[31mred\x1b[0m",
		"\x1b[1;38;5;8;48;2;1;8;3mx\x1b[m":  "\x1b[1;38;5;8;48;2;1;8;3mx\x1b[m",
		"\x1b[31mleft on":                   "\x1b[31mleft on\x1b[0m",
		"\x1b[8mhidden\x1b[0m":              "\\x1b[8mhidden\x1b[0m",
		"\x1b[0;08mhidden":                  "\\x1b[0;08mhidden",
		"\x1b]52;c;ZXZpbA==\a!":             `\x1b]52;c;ZXZpbA==!`,
		"\x1b]0;title\x1b\\!":               `\x1b]0;title!`,
		"\x1bP$q\x1b\\\x1b_Gi=1\x1b\\":      `\x1bP$q\x1b_Gi=1`,
		"\x1b[2J\x1b[H\x1b[6n\x05\a\b":      `\x1b[2J\x1b[H\x1b[6n\x05\x07\x08`,
		"\u009b31m \u202ex \u2028 \xff\x9b": `\u009b31m \u202ex \u2028 \xff\x9b`,
		"\x1b]52;c;cut\nnext":               "\\x1b]52;c;cut\nnext",
		"cut \x1b]52;c;":                    `cut \x1b]52;c;`,
		"cut \x1b[31":                       `cut \x1b[31`,
		"cut \xe6\x97":                      `cut \xe6\x97`,
		"":                                  "",
	})
}

func TestScreen(t *testing.T) {
	t.Parallel()
	whatever := map[string]string{
		"plain\ttext\r\nä 日本 😀 \u202e\b\a":                                        "plain\ttext\r\nä 日本 😀 \u202e\b\a",
		"\x1b[31mred\x1b[0m\x1b[2J\x1b[1;2H\x1b[K\x1b7\x1b8\x1b(B\x1b=\x1bM\x1bc": "\x1b[31mred\x1b[0m\x1b[2J\x1b[1;2H\x1b[K\x1b7\x1b8\x1b(B\x1b=\x1bM\x1bc",
		"\x1b]8;;https://a.example\x1b\\link\x1b]8;;\a":                           "\x1b]8;;https://a.example\x1b\\link\x1b]8;;\x1b\\",
		// The clipboard, titles, notifications, colours of the terminal, files.
		"a\x1b]52;c;ZXZpbA==\ab\x1b]52;c;?\x1b\\c": "abc",
		"a\x1b]0;t\a\x1b]2;t\x1b\\\x1b]9;n\a\x1b]777;n\a\x1b]11;?\a\x1b]4;1;?\a\x1b]50;?\a\x1b]1337;File=:eA==\ab": "ab",
		"a\x1bP$qm\x1b\\\x1bP+q544e\x1b\\\x1bP0;1|17/6c73\x1b\\\x1b_Gx\x1b\\\x1b^x\x1b\\\x1bXx\x1b\\b":             "ab",
		// Questions whose answer the command chooses, the printer, windows, encodings.
		"a\x05\x1b[21t\x1b[20t\x1b[22;0t\x1b[3;0;0t\x1b[5i\x1b[?5i\x1b[1;1;1;1;1;1*y\x1bZ\x1b[x\x1b% G\x1b%@\x1b G\x1b[1$w\x1b[62\"pb": "ab",
		"a\u009d52;c;x\u009cb\x9d\x9b31mc\xc2": "a52;c;xb31mc\xc2",
		// Hidden in each other, cut off, too long.
		"a\x1b\x1b]52;c;x\ab":                           "ab",
		"a\x1b]52;c;\x1b]52;c;x\ab":                     "ab",
		"a\x1b[3\x1b]52;c;x\a1mb":                       "a1mb",
		"a\x1b[3\x181mb":                                "a\x181mb",
		"a\x1b]8;;x\x1b]52;c;x\ab":                      "ab",
		"a\x1b]8;;\u009d52;c;x\u009c\ab":                "ab",
		"a\x1b]8;;" + strings.Repeat("x", 9000) + "\ab": "ab",
		"a\x1b]52;c;\nb":                                "a\nb",
		"a\x1b]52;c;x":                                  "a",
		"a\x1b[31":                                      "a",
		// What was left on is ended.
		"\x1b[?1049h\x1b[?1000;1006hx":            "\x1b[?1049h\x1b[?1000;1006hx\x1b[?1000l\x1b[?1006l\x1b[?1049l",
		"\x1b[?1049h\x1b[?2004hx\x1b[?2004;1049l": "\x1b[?1049h\x1b[?2004hx\x1b[?2004;1049l",
		"\x1b[1;31mx": "\x1b[1;31mx\x1b[0m",
		"":            "",
	}
	const questions = "\x1b[6n\x1b[?6n\x1b[c\x1b[>c\x1b[?2026$p\x1b[>0q\x1b[?u"
	for _, asks := range []bool{false, true} {
		open := func(w io.Writer) io.WriteCloser { return quote.NewScreen(w, asks) }
		checkStream(t, open, whatever)
		want := "ab"
		if asks {
			want = "a" + questions + "b"
		}
		checkStream(t, open, map[string]string{"a" + questions + "b": want})
	}
}

// FuzzStreams: whatever is written in whatever pieces, stored output is colours and
// visible text, and no string reaches the terminal but a link.
func FuzzStreams(f *testing.F) {
	f.Add("a\x1b]52;c;x\ab\x1b[31m\u009b", 2)
	f.Add("\x1b\x1b[\x1b]8;;\x1b\\\x1bP\x18", 1)
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = max(1, size%64)
		stored := through(t, text, size, func(w io.Writer) io.WriteCloser { return quote.NewColours(w) })
		if i := strings.IndexFunc(strings.ReplaceAll(stored, "\x1b[", ""), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f }); i >= 0 {
			t.Errorf("%q becomes %q", text, stored)
		}
		live := through(t, text, size, func(w io.Writer) io.WriteCloser { return quote.NewScreen(w, true) })
		for rest := live; ; {
			_, after, found := strings.Cut(rest, "\x1b]")
			if !found {
				break
			}
			if rest = after; !strings.HasPrefix(rest, "8;") && !strings.HasPrefix(rest, "133;") {
				t.Errorf("%q becomes %q", text, live)
			}
		}
		if strings.ContainsAny(live, "\x05\u0090\u009d\u009b") || strings.Contains(live, "\x1bP") || strings.Contains(live, "\x1b_") {
			t.Errorf("%q becomes %q", text, live)
		}
	})
}

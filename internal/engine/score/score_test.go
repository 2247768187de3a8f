package score

import (
	"fmt"
	"strings"
	"testing"
)

func TestReader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*MaxLine)
	cases := map[string]string{
		"1":                                   "1",
		"ok\n-2.5e3\n":                        "-2500",
		"1\n2 \r\n\n \n":                      "2",
		".5":                                  "0.5",
		long + "\n7\n":                        "7",
		"+0":                                  "0",
		"":                                    "none",
		"\n\n":                                "none",
		"1 2":                                 "none",
		"score: 3":                            "none",
		"NaN":                                 "none",
		"Inf":                                 "none",
		"-inf":                                "none",
		"1e999":                               "none",
		"0x10":                                "none",
		"1_000":                               "none",
		"e":                                   "none",
		"1\nfailed":                           "none",
		strings.Repeat("1", 9999):             "none", // its beginning is not known
		"5" + strings.Repeat("\n", 2*MaxLine): "none",
		"\x1b[1m3":                            "none",
	}
	for text, want := range cases {
		for _, size := range []int{1, 7, MaxLine, len(text) + 1} {
			l := &Reader{}
			for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
				if _, err := l.Write([]byte(rest[:min(size, len(rest))])); err != nil {
					t.Fatal(err)
				}
			}
			got := "none"
			if n := l.Number(); n != nil {
				got = fmt.Sprint(*n)
			}
			if n := OfEnd(l.end, l.cut); (n == nil) != (want == "none") {
				t.Errorf("%.40q: the end alone is %v", text, n)
			}
			if got != want || len(l.end) > MaxLine {
				t.Errorf("%.40q in pieces of %d: %s, want %s; %d bytes are kept", text, size, got, want, len(l.end))
			}
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{"1", "x\n2.5\n", "1e5", "-"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		whole, parts := &Reader{}, &Reader{}
		_, _ = whole.Write(text)
		size = max(1, size)
		for rest := text; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			_, _ = parts.Write(rest[:min(size, len(rest))])
		}
		a, b := whole.Number(), parts.Number()
		if (a == nil) != (b == nil) || a != nil && *a != *b {
			t.Errorf("%q: whole it is %v, in parts %v", text, a, b)
		}
	})
}

package web

import (
	"html/template"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/front/web/highlight"
)

// textOf returns the text of parts as a page shows it, without the numbers of hidden
// characters.
func textOf(parts []part) string {
	var b strings.Builder
	for _, p := range parts {
		if p.Class != hiddenClass {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

func rowsOf(lines ...string) []row {
	var rows []row
	for _, l := range lines {
		rows = append(rows, row{Kind: l[:1], text: l[1:]})
	}
	return rows
}

func classes(parts []part) string {
	var out []string
	for _, p := range parts {
		out = append(out, p.Class+":"+p.Text)
	}
	return strings.Join(out, "|")
}

// TestColourRows: both sides of a change are coloured as one text each, and marked words
// keep their colour.
func TestColourRows(t *testing.T) {
	t.Parallel()
	rows := rowsOf(" /* begins", "-old \"x\" text */", "+ends */ func f(a int)", " return 1")
	newPainter().colourRows("a.go", "", rows)
	markWords(rows, 1<<20)
	want := []string{"hc:/* begins", "hc:old \"x\" text */", "hc:ends */|: |hk:func|: f(a |ht:int|:)", "hk:return|: |hn:1"}
	for i, r := range rows {
		if got := classes(r.Parts); got != want[i] {
			t.Errorf("line %d: %s, want %s", i, got, want[i])
		}
	}
	rows = rowsOf("-return \"one\" + x // why", "+return \"two\" + x // why")
	newPainter().colourRows("a.go", "", rows)
	markWords(rows, 1<<20)
	if got := classes(rows[1].Parts); got != `hk:return|: |hs:"|word hs:two|hs:"|: + x |hc:// why` {
		t.Error(got)
	}
	// A renamed file has two languages.
	rows = rowsOf("-# one", "+// two")
	newPainter().colourRows("a.go", "a.sh", rows)
	markWords(rows, 1<<20)
	if got := classes(rows[0].Parts) + " " + classes(rows[1].Parts); got != "hc:# one hc:// two" {
		t.Error(got)
	}
}

// TestColourBounds: what is too large, too late or of no known language has no colours,
// and all of its text.
func TestColourBounds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("func ", colourBytes/5)
	late := newPainter()
	late.end = time.Now()
	for name, c := range map[string]struct {
		p    *painter
		file string
		line string
	}{
		"a long line": {newPainter(), "a.go", long[:maxLine+5]}, "no language": {newPainter(), "a.txt", "func"}, "no painter": {nil, "a.go", "func"},
		"too late": {late, "a.go", "func"}, "no room": {&painter{left: 3, end: time.Now().Add(time.Hour)}, "a.go", "func"},
	} {
		rows := rowsOf("+" + c.line)
		c.p.colourRows(c.file, "", rows)
		markWords(rows, 1<<20)
		if rows[0].spans != nil || len(rows[0].Parts) == 0 || rows[0].Parts[0].Class != "" {
			t.Errorf("%s: %v", name, rows[0].Parts)
		}
	}
	p := newPainter()
	rows := rowsOf("+func", "+"+strings.Repeat("x", 100))
	for range colourBytes {
		p.colourRows("a.go", "", rows)
	}
	if p.left < 0 || p.left > 200 {
		t.Errorf("there is room for %d bytes", p.left)
	}
}

// TestColourHidden: a line with a character that would not show has no colours.
func TestColourHidden(t *testing.T) {
	t.Parallel()
	rows := rowsOf("+func \u202e\"evil\"")
	newPainter().colourRows("a.go", "", rows)
	markWords(rows, 1<<20)
	if got := classes(rows[0].Parts); strings.Contains(got, highlight.Keyword+":") || !strings.Contains(got, hiddenClass) {
		t.Error(got)
	}
}

// TestColourEscapes: colours neither change what a page says nor let it through as markup.
func TestColourEscapes(t *testing.T) {
	t.Parallel()
	page := template.Must(template.New("text").Parse(`{{range .}}{{if .Class}}<span class="{{.Class}}">{{.Text}}</span>{{else}}{{.Text}}{{end}}{{end}}`))
	tags := regexp.MustCompile(`</?span(?: class="[a-z ]+")?>`)
	for _, line := range []string{
		`"</span><script>alert(1)</script>"`, `// --></style><img src=x onerror=alert(1)>`, "func \u202e\"evil\u200b\"", "'\"><svg onload=alert(1)>", "`${x}` \x00\x1b[31m \xff\xfe", `{{.}} <!-- " ' -->`, strings.Repeat("<b>\"", 900),
	} {
		for _, file := range []string{"a.go", "x.html", "x.js", "x.py", "x.sh", "x.json"} {
			rows := rowsOf("-"+line, "+"+line+" func")
			newPainter().colourRows(file, "", rows)
			markWords(rows, 1<<20)
			plain := rowsOf("-"+line, "+"+line+" func")
			markWords(plain, 1<<20)
			for i := range rows {
				if textOf(rows[i].Parts) != textOf(plain[i].Parts) {
					t.Errorf("%s: %q shows %q", file, line, rows[i].Parts)
				}
				var b strings.Builder
				if err := page.Execute(&b, rows[i].Parts); err != nil {
					t.Fatal(err)
				}
				if rest := tags.ReplaceAllString(b.String(), ""); strings.ContainsAny(rest, "<>") {
					t.Errorf("%s: %q becomes %s", file, line, b.String())
				}
			}
		}
	}
}

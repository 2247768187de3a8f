package receipt

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func markdownOf(t *testing.T, r *Run, decisions ...*Decision) string {
	t.Helper()
	var buf bytes.Buffer
	if err := Markdown(&buf, r, decisions, nil); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func lines(page, prefix string) []string {
	var found []string
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, prefix) {
			found = append(found, strings.TrimSuffix(line, "\n"))
		}
	}
	return found
}

func TestMarkdownDecisionLine(t *testing.T) {
	t.Parallel()
	r := testRun(1)
	if got := lines(markdownOf(t, r), "Decision:"); len(got) != 1 || got[0] != "Decision: `restored`" {
		t.Errorf("%q", got)
	}
	d := testDecision(1, r, nil)
	d.Seq = 2
	if got := lines(markdownOf(t, r, d), "Decision:"); len(got) != 1 || got[0] != "Decision: `accepted`" {
		t.Errorf("%q", got)
	}
}

// hostile is every trick at once: ends the span, the cell, the line; draws on the
// terminal; reorders; hides.
const hostile = "a`|b\n\nDecision: `accepted`\n\r\x1b[2J\x1b]0;t\a\x00\x7f\u0085\u202e\u2066\u200b\u00a0\u2028\ufeff\u3164\u115f\u2800" +
	"\u0300\ufe0f\U000e0061\U000e0100\ue000\xff\xc0<script>[x](y)\\` ` \t"

func TestMarkdownHostile(t *testing.T) {
	t.Parallel()
	calm, wild := testRun(1), testRun(1)
	for _, r := range []*Run{calm, wild} {
		text := "calm"
		if r == wild {
			text = hostile
		}
		r.Cell, r.Workdir, r.Error, r.Actor = text, text, text, text
		r.Command, r.EnvNames, r.ReadOnly = []string{text, text}, []string{text}, []string{text}
		r.Executed = &Executed{Count: 3, Commands: []string{text, text}}
		r.SplitLinks, r.Degraded = []string{text}, []string{text}
		r.Backend, r.BackendReason, r.Runtime = text, text, text
		r.Outcome, r.Decision.Reason = Outcome(text), text
		r.Logs[0].Stream = text
		r.Events.ByAction = map[string]int64{text: 1}
		r.Timings = map[string]int64{text: 1}
		inside, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		r.Controls = Controls{Asked: json.RawMessage(text), Achieved: inside}
	}
	d := testDecision(1, wild, nil)
	d.Seq, d.Reason, d.Actor = 3, hostile, hostile
	page := markdownOf(t, wild, d)
	quiet := markdownOf(t, calm, d)
	if got, want := strings.Count(page, "\n"), strings.Count(quiet, "\n"); got != want {
		t.Errorf("%d lines, not %d", got, want)
	}
	if got, want := strings.Count(page, "`"), strings.Count(quiet, "`"); got != want {
		t.Errorf("%d backticks, not %d", got, want)
	}
	if got, want := strings.Count(page, "|"), strings.Count(quiet, "|"); got != want {
		t.Errorf("%d pipes, not %d", got, want)
	}
	if got := lines(page, "Decision:"); len(got) != 1 {
		t.Errorf("decisions: %q", got)
	}
	if !utf8.ValidString(page) {
		t.Error("not UTF-8")
	}
	for _, c := range page {
		if c != '\n' && c != ' ' && (!unicode.IsPrint(c) || unicode.In(c, unicode.Mn, unicode.Me)) {
			t.Errorf("%U is in the page", c)
		}
	}
	// Outside code spans there is only our own text.
	for i, part := range strings.Split(page, "`") {
		if i%2 == 0 && strings.ContainsAny(part, "<[\\") {
			t.Errorf("outside a code span: %q", part)
		}
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                `""`,
		"hello.txt":       "hello.txt",
		"two words":       `"two words"`,
		"süß 日本":          `"süß 日本"`,
		"a\tb\nc":         `"a\tb\nc"`,
		"`":               `"\x60"`,
		"|":               `"\x7c"`,
		`"\`:              `"\"\\"`,
		"\x1b[0m":         `"\x1b[0m"`,
		"\u202e":          `"\u202e"`,
		"\U000e0001":      `"\U000e0001"`,
		"\xff":            `"\xff"`,
		"\ufffd":          "\"\ufffd\"",
		"e\u0301":         `"e\u0301"`,
		"$(rm -rf)":       `"$(rm -rf)"`,
		"--flag=a,b:c@d%": "--flag=a,b:c@d%",
	} {
		if got := visible(in); got != want {
			t.Errorf("visible(%q) = %s, want %s", in, got, want)
		}
	}
}

// What is shown of a document is the document.
func TestCodeJSON(t *testing.T) {
	t.Parallel()
	doc := "{ \"a|`\" : [\"\u202e\U000e0001 süß\", 1.50] }"
	shown := codeJSON([]byte(doc))
	if want := "`{\"a\\u007c\\u0060\":[\"\\u202e\\udb40\\udc01 süß\",1.50]}`"; shown != want {
		t.Errorf("shown = %s, want %s", shown, want)
	}
	if err := compareDocuments([]byte(doc), []byte(strings.Trim(shown, "`"))); err != nil {
		t.Error(err)
	}
}

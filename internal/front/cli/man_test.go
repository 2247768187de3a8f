package cli

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// TestManPages checks that every command has a page, and that a formatter takes
// them without a complaint.
func TestManPages(t *testing.T) {
	t.Parallel()
	pages := map[string]string{}
	root := New(nil, Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, "v")
	if err := manPages(root, func(name, text string) error {
		pages[name] = text
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"forkcell.1", "forkcell-run.1", "forkcell-try.1", "forkcell-receipt-verify.1"} {
		if pages[name] == "" {
			t.Errorf("no page %s", name)
		}
	}
	if pages["forkcell-man.1"] != "" {
		t.Error("a page for a hidden command")
	}
	run := pages["forkcell-run.1"]
	for _, want := range []string{".SH NAME\nforkcell\\-run \\- Run one command", `.B \-\-timeout DUR`, ".SH EXAMPLES", `\fBforkcell\fR(1)`} {
		if !strings.Contains(run, want) {
			t.Errorf("the page of run lacks %q:\n%s", want, run)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		return // its warnings are more than what this test is for
	}
	for _, name := range []string{"forkcell.1", "forkcell-diff.1"} {
		cmd := exec.Command(groff, "-man", "-Tutf8", "-ww", "-z")
		cmd.Stdin = strings.NewReader(pages[name])
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

func TestRoff(t *testing.T) {
	t.Parallel()
	if got := roff(".x\n'y' -z \\"); got != "\\&.x\n\\(aqy\\(aq \\-z \\e" {
		t.Errorf("%q", got)
	}
}

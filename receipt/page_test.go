package receipt

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInWords: four lines say what ran, from what, who decided and why, and no text of a
// cell leaves its line.
func TestInWords(t *testing.T) {
	t.Parallel()
	r := testRun(1)
	r.Command = []string{"npm", "test", "a b\x1b[31m\n"}
	w := InWords(r, nil)
	for got, want := range map[string]string{
		w.Ran:     `npm test "a b\x1b[31m\n", in cell `,
		w.From:    "state " + r.CheckpointBefore.ID + " with contents " + r.CheckpointBefore.Root[:12],
		w.Decided: "restored by a flag of the run",
	} {
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	d := testDecision(1, r, nil)
	d.Seq, d.Reason, d.Forced, d.Actor = 2, "ship it\n\u202e", true, "ada"
	w = InWords(r, []*Decision{d})
	if w.Decided != "accepted by ada, who insisted ("+d.DecisionID+")" || w.Why != `"ship it\n\u202e"` {
		t.Errorf("%+v", w)
	}
	if none := InWords(&Run{Decision: AutoDecision{Result: Pending}}, nil); none.Decided != "nobody yet, as far as this shows" || none.Why != "no reason was given" {
		t.Errorf("%+v", none)
	}
}

// TestPage: a page has the bundle, byte for byte, runs nothing, and shows foreign text as
// text.
func TestPage(t *testing.T) {
	t.Parallel()
	b, _ := testBundle(t)
	var page bytes.Buffer
	if err := WritePage(&page, b); err != nil {
		t.Fatal(err)
	}
	got, err := ParseBundle(bytes.NewReader(page.Bytes()))
	if diff := cmp.Diff(b, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := VerifyBundle(bytes.NewReader(page.Bytes()), trusted(1)); err != nil {
		t.Error(err)
	}
	if bad := regexp.MustCompile(`(?i)<script|<img|<link|<iframe|\son\w+=|https?://[^"]*["']|url\(`).FindString(strings.ReplaceAll(page.String(), BundleType, "")); bad != "" {
		t.Errorf("the page has %s", bad)
	}
	for name, text := range map[string]string{
		"cut":        page.String()[:page.Len()-30],
		"no bundle":  pageStart + "<p>x",
		"not base64": pageStart + pageBundle + `!!!!">`,
		"not a page": "<!doctype html>\n<p>" + pageBundle + `">`,
	} {
		if _, err := ParseBundle(strings.NewReader(text)); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
}

// TestPageOfHostileReceipt: no text of a cell becomes a part of the page.
func TestPageOfHostileReceipt(t *testing.T) {
	t.Parallel()
	log := newTestLog(t)
	r := testRun(1)
	evil := `</pre><script>alert(1)</script>` + pageBundle + `eA==">`
	r.Command, r.Workdir = []string{evil}, evil
	log.place(r, r.CellID, r.Cell)
	var page bytes.Buffer
	if err := WritePage(&page, Bundle{Receipt: log.add(r)}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), "<script") || strings.Count(page.String(), pageBundle) != 1 {
		t.Error(page.String())
	}
}

package document_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/text/document"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", 3600)
	var b bytes.Buffer
	err := document.Write(&b, struct {
		List  []string         `json:"list"`
		Map   map[string]int64 `json:"map"`
		Time  time.Time        `json:"time"`
		Inner *struct {
			More []int `json:"more"`
		} `json:"inner"`
		Text string `json:"text"`
	}{Time: time.Date(2026, 1, 2, 3, 4, 5, 6000, zone), Inner: &struct {
		More []int `json:"more"`
	}{}, Text: "<a&b> \u2028\u0085\U000e0001\x7f é"})
	want := `{"list":[],"map":{},"time":"2026-01-02T02:04:05.000006Z","inner":{"more":[]},"text":"<a&b> \u2028\u0085\udb40\udc01\u007f é"}` + "\n"
	if err != nil || b.String() != want {
		t.Errorf("%v\n got %s\nwant %s", err, b.String(), want)
	}
}

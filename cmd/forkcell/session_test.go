package main

import (
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestLeftOutControlsAreRecorded: controls that the caller of start left out are in the
// receipt.
func TestLeftOutControlsAreRecorded(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	_, err := h.e.Start(h.Context(), api.StartRequest{Cell: "demo", Degraded: []string{"no limits here"}})
	h.ok(err)
	res, err := h.e.Stop(h.Context(), api.StopRequest{Cell: "demo", Grace: -1})
	h.ok(err)
	doc, err := h.e.Receipt(h.Context(), res.ReceiptID, "", false)
	h.ok(err)
	if !strings.Contains(string(doc.JSON), "no limits here") {
		t.Errorf("not in the receipt:\n%s", doc.Markdown)
	}
}

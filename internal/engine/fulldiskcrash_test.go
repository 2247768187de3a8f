//go:build failpoints

package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/testkit/disktest"
)

// TestRemoveWithoutInodes: a run died when no inode was left. Its work is dropped before
// the removal of its cell is recorded.
func TestRemoveWithoutInodes(t *testing.T) { onFewInodes(t, 1000, (*world).removeWithoutInodes) }

func (w *world) removeWithoutInodes() {
	w.init("demo", "overlay")
	if killed, out, err := w.crashAt("run", "run.executed"); !killed {
		w.Fatalf("the run came to its end: %v\n%s", err, out)
	}
	w.ok(os.RemoveAll(filepath.Join(w.home, "reserve-files"))) // as in a home of an earlier version
	disktest.FillInodes(w, filepath.Dir(w.home))
	w.open()
	w.ok(w.e.Remove(w.ctx, "demo", true))
	list, err := w.e.ReceiptList(w.ctx, "")
	w.ok(err)
	if len(list) != 1 {
		w.Fatalf("the receipts are %+v", list)
	}
	doc, err := w.e.Receipt(w.ctx, list[0].ReceiptID, "", true)
	w.ok(err)
	if page := string(doc.Markdown); !strings.Contains(page, "dropped") {
		w.Errorf("the receipt does not say that the work was dropped:\n%s", page)
	}
}

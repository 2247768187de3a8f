package cli

import (
	"context"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// showBundle prints the receipt in a bundle, and first whether a trusted key signed it.
func showBundle(ctx context.Context, s *frame, e receiptVerifier, o receiptShowOptions) error {
	doc, err := engine.ReadBundle(o.bundle)
	if err != nil {
		return err
	}
	res, failed := e.BundleVerify(ctx, o.bundle, o.key)
	switch {
	case res != nil && res.OK:
		doc.Markdown = append([]byte("Signature: verified"+keyNote(res.KeyID)+"\n\n"), doc.Markdown...)
	case failed != nil:
		doc.Markdown = append([]byte("Signature: NOT VERIFIED, "+quote.Line(failed.Error())+"\n\n"), doc.Markdown...)
	}
	if err := printReceipt(s, doc, o); err != nil {
		return err
	}
	return failed
}

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/receipt"
)

// showBundle prints the receipt in a bundle, and first whether a trusted key signed it.
func showBundle(ctx context.Context, s *session, e receiptVerifier, o receiptShowOptions) error {
	f, err := os.Open(o.bundle)
	if err != nil {
		return usageError("", "--bundle %s: %v", quote.Path(o.bundle), quote.Cause(err))
	}
	defer f.Close()
	b, err := receipt.ParseBundle(f)
	if err != nil {
		return refusal(api.CodeNotVerified, "give a file that receipt export has written", "--bundle %s: %v", quote.Path(o.bundle), err)
	}
	doc, err := documentOf(b)
	if err != nil {
		return refusal(api.CodeNotVerified, "do not rely on it", "--bundle %s: %v", quote.Path(o.bundle), err)
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

// documentOf returns the receipt in a bundle as receipt show prints it.
func documentOf(b receipt.Bundle) (*api.ReceiptDoc, error) {
	run, decisions, err := b.Statements()
	if err != nil {
		return nil, err
	}
	var md bytes.Buffer
	if err := receipt.Markdown(&md, run, decisions, nil); err != nil {
		return nil, err
	}
	env, err := receipt.ParseEnvelope(b.Receipt)
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(struct {
		Receipt   receipt.Statement   `json:"receipt"`
		Decisions []*receipt.Decision `json:"decisions"`
		Decision  string              `json:"decision"`
	}{env.Statement, append([]*receipt.Decision{}, decisions...), string(receipt.Present(run, decisions).Result)}, "", "  ")
	return &api.ReceiptDoc{Markdown: md.Bytes(), JSON: text, Envelope: b.Receipt}, err
}

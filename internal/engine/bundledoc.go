package engine

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// ReadBundle returns the receipt in the file of a bundle, as receipt show prints it. It is
// not verified.
func ReadBundle(path string) (*api.ReceiptDoc, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, api.Usagef("", "--bundle %s: %v", quote.Path(path), quote.Cause(err))
	}
	defer f.Close()
	b, err := receipt.ParseBundle(f)
	if err != nil {
		return nil, api.Refusef(api.CodeNotVerified, "give a file that receipt export has written", "--bundle %s: %v", quote.Path(path), err)
	}
	doc, err := documentOf(b)
	if err != nil {
		return nil, api.Refusef(api.CodeNotVerified, "do not rely on it", "--bundle %s: %v", quote.Path(path), err)
	}
	return doc, nil
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

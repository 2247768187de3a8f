package receipt

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
)

// The page begins with pageStart, and the bundle in it stands between pageBundle and the
// next quotation mark.
const (
	pageStart  = "<!doctype html>\n<!-- " + BundleType + " as a page -->\n"
	pageBundle = `<a download="bundle.json" href="data:application/json;base64,`
)

// WritePage writes a bundle as one HTML page that loads nothing and runs nothing: the
// receipt in words and in full, for people, and the bundle itself. [ParseBundle] reads the
// bundle in it, and only that: what the page shows is not signed. WritePage verifies
// nothing.
func WritePage(w io.Writer, b Bundle) error {
	run, decisions, err := b.Statements()
	if err != nil {
		return err
	}
	var bundle, full bytes.Buffer
	if err := errors.Join(WriteBundle(&bundle, b), Markdown(&full, run, decisions, nil)); err != nil {
		return err
	}
	var page bytes.Buffer
	page.WriteString(pageStart)
	id, words := html.EscapeString(visible(run.ReceiptID)), InWords(run, decisions)
	fmt.Fprintf(&page, pageHead, id, id)
	for _, line := range [][2]string{{"What ran", words.Ran}, {"From what", words.From}, {"Decided", words.Decided}, {"Why", words.Why}} {
		fmt.Fprintf(&page, "<dt>%s</dt><dd>%s</dd>\n", line[0], html.EscapeString(line[1]))
	}
	fmt.Fprintf(&page, pageRest, html.EscapeString(full.String()))
	page.WriteString("<p>" + pageBundle + base64.StdEncoding.EncodeToString(bundle.Bytes()) + `">The bundle</a></p>` + "\n")
	if page.Len() > MaxBundle {
		return malformed("write page: it would have %d bytes, the limit is %d", page.Len(), MaxBundle)
	}
	if _, err := w.Write(page.Bytes()); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// bundleOf returns the bundle in a page, or the text if it is no page.
func bundleOf(text []byte) ([]byte, error) {
	if !bytes.HasPrefix(text, []byte(pageStart)) {
		return text, nil
	}
	at := bytes.LastIndex(text, []byte(pageBundle))
	if at < 0 {
		return nil, malformed("page: there is no bundle in it")
	}
	encoded, _, ok := bytes.Cut(text[at+len(pageBundle):], []byte{'"'})
	if !ok {
		return nil, malformed("page: the bundle was cut off")
	}
	bundle := make([]byte, base64.StdEncoding.DecodedLen(len(encoded)))
	n, err := base64.StdEncoding.Strict().Decode(bundle, encoded)
	if err != nil {
		return nil, malformed("page: %w", err)
	}
	return bundle[:n], nil
}

// Statements returns the receipt of a bundle and the decisions about it, to show them.
// Nothing is verified: see [Bundle.Verify].
func (b Bundle) Statements() (*Run, []*Decision, error) {
	e, err := ParseEnvelope(b.Receipt)
	if err != nil {
		return nil, nil, fmt.Errorf("bundle: receipt: %w", err)
	}
	run, ok := e.Statement.Predicate.(*Run)
	if !ok {
		return nil, nil, malformed("bundle: receipt: a %s", e.Statement.PredicateType)
	}
	var decisions []*Decision
	for _, raw := range b.Decisions {
		e, err := ParseEnvelope(raw)
		if err != nil {
			return nil, nil, fmt.Errorf("bundle: decision: %w", err)
		}
		if d, ok := e.Statement.Predicate.(*Decision); ok && d.ReceiptID == run.ReceiptID {
			decisions = append(decisions, d)
		}
	}
	return run, decisions, nil
}

// pageHead needs the id of the receipt twice.
const pageHead = `<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>Receipt %s</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52em; margin: 2em auto; padding: 0 1em; color: #1b1f24; background: #fff }
dt { font-weight: 600 } dd { margin: 0 0 .6em; overflow-wrap: anywhere }
pre { overflow-x: auto; background: #f4f5f7; padding: 1em; font-size: 13px }
@media (prefers-color-scheme: dark) { body { color: #e6e8eb; background: #14171a } pre { background: #1e2226 } a { color: #8ab4f8 } }
</style>
<h1>Receipt %s</h1>
<dl>
`

// pageRest needs the whole receipt.
const pageRest = `</dl>
<p>Anybody can write such a page. The evidence is the bundle in it: save the page, and check it with the
signer's public key. That prints these four lines for what is signed.</p>
<pre>forkcell receipt verify --bundle PAGE.html --key signer.pem</pre>
<details><summary>The whole receipt</summary><pre>%s</pre></details>
`

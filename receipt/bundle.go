package receipt

import (
	"encoding/json"
	"fmt"
	"io"
)

// BundleType marks a bundle of this format.
const BundleType = "https://forkcell.dev/bundle/v1"

// MaxBundle is the size of the largest bundle, in bytes.
const MaxBundle = 64 << 20

// Bundle is a receipt and what is needed to check it elsewhere. Envelopes are
// their exact bytes, in base64 within the document, so that no tool that touches
// the JSON can change them.
type Bundle struct {
	// Receipt is the envelope of a run.
	Receipt []byte
	// Decisions are the envelopes of the decisions about it.
	Decisions [][]byte
	// Keys are the envelopes of key statements, by which trust in an earlier key
	// reaches the key that signed.
	Keys [][]byte
	// Context holds other statements of the same log, as a rule those that the
	// receipt's prev and cell_prev stand for.
	Context [][]byte
	// Included holds things that the receipt binds (logs, the policy), by the
	// SHA-256 of their contents in lower hex.
	Included map[string][]byte
	// Events is the run's journal of events as it was written, which the receipt
	// binds by the hash of its chain.
	Events []byte
}

// bundleDocument is the form in which a bundle travels.
type bundleDocument struct {
	Bundle    string            `json:"bundle"`
	Receipt   []byte            `json:"receipt"`
	Decisions [][]byte          `json:"decisions,omitempty"`
	Keys      [][]byte          `json:"keys,omitempty"`
	Context   [][]byte          `json:"context,omitempty"`
	Included  map[string][]byte `json:"included,omitempty"`
	Events    []byte            `json:"events,omitempty"`
}

// WriteBundle writes a bundle as one JSON document. It does not verify it.
func WriteBundle(w io.Writer, b Bundle) error {
	doc := bundleDocument{
		Bundle: BundleType, Receipt: b.Receipt, Decisions: b.Decisions,
		Keys: b.Keys, Context: b.Context, Included: b.Included, Events: b.Events,
	}
	data, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	data = append(data, '\n')
	if len(data) > MaxBundle {
		return malformed("write bundle: it would have %d bytes, the limit is %d", len(data), MaxBundle)
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}

// ParseBundle reads a bundle strictly and verifies nothing. It may be in a page of
// [WritePage].
func ParseBundle(r io.Reader) (Bundle, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBundle+1))
	if err != nil {
		return Bundle{}, fmt.Errorf("read bundle: %w", err)
	}
	if len(data) > MaxBundle {
		return Bundle{}, malformed("bundle: larger than %d bytes", MaxBundle)
	}
	if data, err = bundleOf(data); err != nil {
		return Bundle{}, err
	}
	var doc bundleDocument
	if err := decodeStrict(data, &doc, nothingOpaque); err != nil {
		return Bundle{}, malformed("bundle: %w", err)
	}
	if doc.Bundle != BundleType {
		return Bundle{}, malformed("bundle: its type is %q, not %q", doc.Bundle, BundleType)
	}
	for sum := range doc.Included {
		if !isHash(sum) {
			return Bundle{}, malformed("bundle: included: %q is not a SHA-256", sum)
		}
	}
	return Bundle{
		Receipt: doc.Receipt, Decisions: doc.Decisions, Keys: doc.Keys,
		Context: doc.Context, Included: doc.Included, Events: doc.Events,
	}, nil
}

package history

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/transfer"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// ReceiptList lists receipts, oldest first; "" asks for all cells.
func (h *History) ReceiptList(_ context.Context, cell string) ([]api.ReceiptInfo, error) {
	if cell == "" {
		if h.Store == nil {
			return []api.ReceiptInfo{}, nil
		}
		return h.Evidence.Receipts("")
	}
	c, err := h.FindRecorded(cell)
	if err != nil {
		return nil, err
	}
	return h.Evidence.Receipts(c.ID)
}

// Receipt returns one receipt, by its id or the latest of a cell or of all, with its
// present decision.
func (h *History) Receipt(_ context.Context, id, cell string, _ bool) (*api.ReceiptDoc, error) {
	r, err := h.runWithReceipt(id, cell)
	if err != nil {
		return nil, err
	}
	return h.Evidence.Receipt(r)
}

// runWithReceipt finds the run of a receipt.
func (h *History) runWithReceipt(id, cell string) (r store.Run, err error) {
	err = h.View(func(tx *store.Tx) error {
		r, err = h.findReceipt(tx, id, cell)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		err = api.NoReceipt(cell)
	}
	return r, err
}

// findReceipt resolves a receipt by its id, or returns the latest of a cell or of
// all cells.
func (h *History) findReceipt(tx *store.Tx, id, cell string) (store.Run, error) {
	if id == "" {
		return latestReceipt(tx, cell)
	}
	full, err := h.CompleteID(tx, "statements", id, nil)
	if err != nil {
		return store.Run{}, home.IDError("receipt", id, err, "`forkcell receipt list` shows them")
	}
	r, err := tx.RunOfReceipt(full)
	return r, home.IDError("receipt", id, err, "`forkcell receipt list` shows them")
}

func latestReceipt(tx *store.Tx, cell string) (store.Run, error) {
	cellID := ""
	if cell != "" {
		c, err := tx.RecordedCell(cell)
		if err != nil {
			return store.Run{}, home.IDError("cell", cell, err, "`forkcell ls` shows the cells")
		}
		cellID = c.ID
	}
	r, err := tx.LastRun(cellID)
	if errors.Is(err, store.ErrNotFound) {
		err = api.NoReceipt(cell)
	}
	return r, err
}

// ReceiptExport writes a self-contained bundle, and returns its size.
func (h *History) ReceiptExport(ctx context.Context, id, output string) (int64, error) {
	if output == "" {
		return 0, api.Usagef("`-o FILE`", "no output file")
	}
	abs, err := h.Caller.AbsPath(output)
	if err == nil {
		err = h.RefuseOverlap("-o", abs)
	}
	if err != nil {
		return 0, err
	}
	data, err := h.Bundle(ctx, id)
	if err != nil {
		return 0, err
	}
	return transfer.WriteBundle(abs, data)
}

// Bundle returns a self-contained bundle of a receipt.
func (h *History) Bundle(_ context.Context, id string) ([]byte, error) {
	r, err := h.runWithReceipt(id, "")
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	err = h.Evidence.Bundle(&data, r.ID)
	return data.Bytes(), err
}

// ReceiptVerify checks the log, and reports what concerns a receipt, a cell or all.
func (h *History) ReceiptVerify(ctx context.Context, id, cell string, all bool, keyFile string) (*api.ReceiptVerifyResult, error) {
	pem, err := h.readKey(keyFile)
	if err != nil {
		return nil, err
	}
	return h.VerifyReceipts(ctx, api.ReceiptVerifyRequest{Receipt: id, Cell: cell, All: all, Key: pem})
}

// VerifyReceipts checks a bundle, or the log as far as it concerns a receipt, a cell
// or all.
func (h *History) VerifyReceipts(_ context.Context, req api.ReceiptVerifyRequest) (*api.ReceiptVerifyResult, error) {
	keys, err := givenKeys(req.Key)
	if err != nil {
		return nil, err
	}
	if req.Bundle != nil {
		return h.Evidence.VerifyBundle(bytes.NewReader(req.Bundle), keys...)
	}
	if h.Store == nil && !req.All {
		return nil, api.Missing("receipt", req.Receipt+req.Cell, "there is no state directory yet")
	}
	of, err := h.verifyScope(req.Receipt, req.Cell, req.All)
	if err != nil {
		return nil, err
	}
	return h.Evidence.Verify(of, keys...)
}

func (h *History) verifyScope(id, cell string, all bool) (of statements.Scope, err error) {
	if all {
		return of, nil
	}
	if id == "" && cell == "" {
		return of, api.Usagef("give a receipt, --cell, --all or --bundle", "nothing to verify")
	}
	err = h.Store.View(func(tx *store.Tx) error {
		if cell != "" {
			c, err := tx.RecordedCell(cell)
			of.Cell = c.ID
			if err != nil {
				return home.IDError("cell", cell, err, "`forkcell ls` shows the cells")
			}
		}
		if id != "" {
			r, err := h.findReceipt(tx, id, "")
			of.Run = r.ID
			return err
		}
		return nil
	})
	return of, err
}

// BundleVerify checks a bundle with keys that are trusted here, never with the key
// inside it.
func (h *History) BundleVerify(_ context.Context, file, keyFile string) (*api.ReceiptVerifyResult, error) {
	pem, err := h.readKey(keyFile)
	if err != nil {
		return nil, err
	}
	keys, err := givenKeys(pem)
	if err != nil {
		return nil, err
	}
	abs, err := h.Caller.AbsPath(file)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(abs)
	if err != nil {
		return nil, api.Usagef("", "--bundle %s: %v", quote.Path(file), quote.Cause(err))
	}
	defer f.Close()
	return h.Evidence.VerifyBundle(f, keys...)
}

// readKey reads the file of the public key that --key names, if it does.
func (h *History) readKey(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	data, _, err := h.publicKey("--key ", file)
	return data, err
}

// maxKeyFile is more than the file of any public key has.
const maxKeyFile = 64 << 10

// publicKey reads the file of a public key. Errors begin with what.
func (h *History) publicKey(what, file string) (data []byte, key ed25519.PublicKey, err error) {
	abs, err := h.Caller.AbsPath(file)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(abs)
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, maxKeyFile))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, nil, api.Usagef("", "%s%s: %v", what, quote.Path(file), quote.Cause(err))
	}
	if key, err = receipt.ParsePublic(data); err != nil {
		return nil, nil, api.Usagef(publicKeyHint, "%s%s: %v", what, quote.Path(file), err)
	}
	return data, key, nil
}

const publicKeyHint = "give a PEM (SPKI) Ed25519 public key, as `forkcell key show --pem` prints"

// givenKeys parses the public key that the caller trusts for one verification, if
// one was given.
func givenKeys(pem []byte) (keys []ed25519.PublicKey, err error) {
	if len(pem) == 0 {
		return nil, nil
	}
	pub, err := receipt.ParsePublic(pem)
	if err != nil {
		return nil, api.Usagef(publicKeyHint, "the key: %v", err)
	}
	return append(keys, pub), nil
}

// Decisions lists decisions, oldest first, of one cell or run or of all.
func (h *History) Decisions(_ context.Context, cell, run string) ([]api.DecisionInfo, error) {
	if h.Store == nil && cell == "" {
		return []api.DecisionInfo{}, nil
	}
	cellID, runID := "", ""
	err := h.View(func(tx *store.Tx) error {
		if cell != "" {
			c, err := tx.RecordedCell(cell)
			if err != nil {
				return home.IDError("cell", cell, err, "`forkcell ls` shows the cells")
			}
			cellID = c.ID
		}
		if run != "" {
			id, err := h.CompleteID(tx, "runs", run, nil)
			if err != nil {
				return home.IDError("run", run, err, "`forkcell log CELL` shows them")
			}
			runID = id
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return h.Evidence.Decisions(cellID, runID)
}

// Decision finds one decision.
func (h *History) Decision(ctx context.Context, id string) (*api.DecisionInfo, error) {
	all, err := h.Decisions(ctx, "", "")
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].DecisionID
	}
	full, err := store.PickID(ids, id)
	if err != nil {
		return nil, home.IDError("decision", id, err, "`forkcell decisions list` shows them")
	}
	return &all[slices.Index(ids, full)], nil
}

// Key returns the signing identity.
func (h *History) Key(context.Context) (*api.KeyInfo, error) { return h.Evidence.Key() }

// KeyInit makes the signing key if there is none.
func (h *History) KeyInit(context.Context) (*api.KeyInfo, error) { return h.Evidence.KeyInit() }

// KeyRotate replaces the signing key; the old one signs the new one.
func (h *History) KeyRotate(context.Context) (*api.KeyInfo, error) { return h.Evidence.KeyRotate() }

// KeyLost makes a new signing key in place of one that is lost.
func (h *History) KeyLost(context.Context) (*api.KeyInfo, error) { return h.Evidence.KeyLost() }

// KeyTrust stores a foreign public key as trusted for bundles.
func (h *History) KeyTrust(_ context.Context, file string) (string, error) {
	_, key, err := h.publicKey("", file)
	if err != nil {
		return "", err
	}
	return h.Evidence.Trust(key)
}

package cell

import (
	"context"
	"os"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// Decisions lists decisions, oldest first, of one cell or run or of all.
func (e *Engine) Decisions(_ context.Context, cell, run string) ([]api.DecisionInfo, error) {
	if e.store == nil && cell == "" {
		return []api.DecisionInfo{}, nil
	}
	cellID, runID := "", ""
	err := e.view(func(tx *store.Tx) error {
		if cell != "" {
			c, err := tx.Cell(cell)
			if err != nil {
				return idError("cell", cell, err, "`forkcell ls` shows the cells")
			}
			cellID = c.ID
		}
		if run != "" {
			id, err := tx.Complete("runs", run)
			if err != nil {
				return idError("run", run, err, "`forkcell log CELL` shows them")
			}
			runID = id
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return e.log.Decisions(cellID, runID)
}

// Decision finds one decision.
func (e *Engine) Decision(ctx context.Context, id string) (*api.DecisionInfo, error) {
	all, err := e.Decisions(ctx, "", "")
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].DecisionID
	}
	full, err := store.PickID(ids, id)
	if err != nil {
		return nil, idError("decision", id, err, "`forkcell decisions list` shows them")
	}
	return &all[slices.Index(ids, full)], nil
}

// Key returns the signing identity.
func (e *Engine) Key(context.Context) (*api.KeyInfo, error) { return e.log.Key() }

// KeyInit makes the signing key if there is none.
func (e *Engine) KeyInit(context.Context) (*api.KeyInfo, error) { return e.log.KeyInit() }

// KeyRotate replaces the signing key; the old one signs the new one.
func (e *Engine) KeyRotate(context.Context) (*api.KeyInfo, error) { return e.log.KeyRotate() }

// KeyLost makes a new signing key in place of one that is lost.
func (e *Engine) KeyLost(context.Context) (*api.KeyInfo, error) { return e.log.KeyLost() }

// KeyTrust keeps a public key of others as trusted for bundles.
func (e *Engine) KeyTrust(_ context.Context, file string) (string, error) {
	data, err := os.ReadFile(e.caller.path(file))
	if err != nil {
		return "", api.Usagef("", "%s: %v", quote.Path(file), err)
	}
	pub, err := receipt.ParsePublic(data)
	if err != nil {
		return "", api.Usagef("give a PEM (SPKI) Ed25519 public key", "%s: %v", quote.Path(file), err)
	}
	return e.log.Trust(pub)
}

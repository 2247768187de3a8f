package inventory

import (
	"context"
	"errors"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// Caches lists the shared caches.
func (inv *Inventory) Caches(context.Context) ([]api.SharedCache, error) {
	list := []api.SharedCache{}
	err := inv.View(func(tx *store.Tx) error {
		cells, err := tx.Cells(false)
		if err != nil {
			return err
		}
		for _, c := range slices.DeleteFunc(cells, func(c store.Cell) bool { return !home.IsShared(c) }) {
			s, err := inv.sharedInfo(tx, c)
			if err != nil {
				return err
			}
			list = append(list, s)
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) && inv.Store == nil {
		return list, nil
	}
	return list, err
}

func (inv *Inventory) sharedInfo(tx *store.Tx, c store.Cell) (api.SharedCache, error) {
	r, err := inv.record(tx, c)
	if err != nil {
		return api.SharedCache{}, err
	}
	info := r.info
	out := api.SharedCache{
		Name: c.Name, Source: c.Source, Head: info.Head, Root: info.Root, Files: info.Files, Bytes: info.Bytes,
		OwnBytes: info.OwnBytes, Layers: info.Layers,
	}
	list, err := tx.Statements(c.ID)
	if err != nil || len(list) == 0 {
		return out, err
	}
	env, err := inv.Evidence.Envelope(list[len(list)-1].Seq)
	if err != nil {
		return out, err
	}
	out.UpdatedAt = env.Statement.Place().CreatedAt
	if p, ok := env.Statement.Predicate.(*receipt.Change); ok {
		out.From = p.Details[home.DetailFromCell]
	}
	return out, nil
}

package inventory

import (
	"cmp"
	"maps"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
)

func OnTimeout(s store.Settings) string { return cmp.Or(s.OnTimeout, api.OnTimeoutStop) }

// showSettings adds the settings of a cell to its description.
func showSettings(tx *store.Tx, info *api.CellInfo) error {
	s, err := tx.Settings(info.CellID)
	info.Labels, info.OnTimeout = map[string]string{}, OnTimeout(s)
	maps.Copy(info.Labels, s.Labels)
	info.TTL, info.IdleTimeout = api.Duration(s.TTL), api.Duration(s.IdleTimeout)
	return err
}

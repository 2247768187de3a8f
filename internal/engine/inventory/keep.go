package inventory

import "github.com/forkcell/forkcell/internal/storage/store"

// keep returns a value that read computes from the database alone. If the engine keeps
// records, it computes the value once for each version of the database.
func keep[T any](inv *Inventory, m *memo[store.Version, T], key string, read func() (T, error)) (T, error) {
	if !inv.kept.records.Load() { // see KeepRecords
		return read()
	}
	version := inv.Store.Version()
	if !version.Known() {
		return read()
	}
	return m.get(key, version, read)
}

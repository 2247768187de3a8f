package cell

import "github.com/forkcell/forkcell/internal/store"

// keep returns a value that read computes from the database alone. If the engine keeps
// records, it computes the value once for each version of the database.
func keep[T any](e *Engine, m *memo[store.Version, T], key string, read func() (T, error)) (T, error) {
	if !e.shared.keeps.Load() { // see KeepRecords
		return read()
	}
	version := e.Store.Version()
	if !version.Known() {
		return read()
	}
	return m.get(key, version, read)
}

package cell

import "github.com/forkcell/forkcell/internal/store"

// KeepRecords makes the engine, and those made from it, keep what they read about cells
// until any process changes the database. It is for a process that answers many
// requests. What the first request needs is read meanwhile; the returned function waits
// for that.
func (e *Engine) KeepRecords() (wait func()) {
	e.shared.keeps.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = e.records() // a request that needs them gets the error
	}()
	return func() { <-done }
}

// keep returns a value that read computes from the database alone. If the engine keeps
// records, it computes the value once for each version of the database.
func keep[T any](e *Engine, m *memo[store.Version, T], key string, read func() (T, error)) (T, error) {
	if !e.shared.keeps.Load() {
		return read()
	}
	version := e.Store.Version()
	if !version.Known() {
		return read()
	}
	return m.get(key, version, read)
}

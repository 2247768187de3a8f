package home

import "github.com/forkcell/forkcell/internal/memory"

// Images returns the images of memory of the home. One that is only needed for a
// moment has the id of the run that made it, and is removed with it.
func (h *Home) Images() memory.Store { return memory.In(h.Store.Dir(), h.Store.Path()) }

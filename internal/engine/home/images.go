package home

import "github.com/forkcell/forkcell/internal/storage/moments"

// Images returns the images of memory of the home. One that is only needed for a
// moment has the id of the run that made it, and is removed with it.
func (h *Home) Images() moments.Store { return moments.In(h.Store.Dir(), h.Store.Path()) }

package cell

import "github.com/forkcell/forkcell/internal/memory"

// images returns the images of memory of the home. One that is only needed for a
// moment has the id of the run that made it, and is removed with it.
func (e *Engine) images() memory.Store { return memory.In(e.store.Dir(), e.store.Path()) }

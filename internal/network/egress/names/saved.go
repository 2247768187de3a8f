package names

import (
	"errors"
	"fmt"
	"slices"
)

// Saved is a table as it can be kept.
type Saved struct {
	First uint32   `json:"first"`
	Names []string `json:"names"`
}

// Save returns the names of the table and where its addresses begin.
func (t *Table) Save() Saved {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return Saved{First: t.first, Names: slices.Clone(t.names)}
}

// Load returns the table that was saved.
func Load(s Saved) (*Table, error) {
	t := &Table{first: s.First, names: slices.Clone(s.Names)}
	if len(s.Names) > defaultNames || s.First >= addresses {
		return nil, fmt.Errorf("a table of %d names that begins at %d", len(s.Names), s.First)
	}
	if len(s.Names) > 0 {
		t.ordinal = map[string]uint32{}
	}
	for i, name := range s.Names {
		t.ordinal[name] = uint32(i)
	}
	if len(t.ordinal) != len(s.Names) {
		return nil, errors.New("a table with a name that is there twice")
	}
	return t, nil
}

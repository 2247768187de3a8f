package rest

import (
	"context"
	"strings"
	"sync"
)

// lineage says which cells belong to one cell: it, its forks, and what its callers made. A
// name alone says nothing: the cell of another source can have one that begins so.
type lineage struct {
	root string // the id of the cell
	name string // its name, which begins the names of new cells
	load func() (map[string]bool, error)

	mu    sync.Mutex
	known map[string]bool // by name; nil before the first question
}

// newLineage returns the lineage of a bound caller's cell for one request.
func (s *Server) newLineage(root, name string) *lineage {
	return &lineage{root: root, name: name, load: func() (map[string]bool, error) {
		return s.actFor(&call{caller: sender{local: true}}, nil, nil).Lineage(context.Background(), root)
	}}
}

// has reports whether a name is that of a cell in the lineage. One that no cell has is free
// for a new cell if it begins as it should.
func (l *lineage) has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	belongs, known := l.known[name]
	if !known {
		names, err := l.load()
		if err != nil {
			return false
		}
		l.known = names
		belongs, known = names[name]
	}
	if !known {
		return strings.HasPrefix(name, l.name+"-")
	}
	return belongs
}

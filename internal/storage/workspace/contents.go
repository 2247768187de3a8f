package workspace

import (
	"fmt"
	"io"
	"os"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

// opener opens the contents of one file of a tree.
type opener func(path string, e tree.Entry) (io.ReadCloser, error)

// OpenFile opens the contents of one file of a state. path is relative to the
// area; e is its entry in the state's manifest.
func (s *Store) OpenFile(b Backend, layer, area, path string, e tree.Entry) (*os.File, error) {
	if e.Kind != tree.KindFile {
		return nil, fmt.Errorf("open %s: it is a %s", path, e.Kind)
	}
	kept, err := s.backend(b)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	f, err := kept.open(layer, area, path, e)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return f, nil
}

// contentsOf returns a function that opens the files of one area of a state.
func contentsOf(b backend, layer, area string) opener {
	return func(path string, e tree.Entry) (io.ReadCloser, error) {
		f, err := b.open(layer, area, path, e)
		if err != nil { // a nil *os.File must not become a non-nil interface
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		return f, nil
	}
}

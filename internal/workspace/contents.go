package workspace

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/forkcell/forkcell/internal/tree"
)

// opener opens the contents of one file of a tree.
type opener func(path string, e tree.Entry) (io.ReadCloser, error)

// OpenFile opens the contents of one file of a state. path is beneath the area;
// e is its entry in the state's manifest.
func (s *Store) OpenFile(b Backend, layer, area, path string, e tree.Entry) (*os.File, error) {
	if e.Kind != tree.KindFile {
		return nil, fmt.Errorf("open %s: it is a %s", path, e.Kind)
	}
	if b == BackendDelta && area == AreaWorkspace {
		f, err := s.openObject(e.Digest)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		return f, nil
	}
	holder := e.Layer
	if holder == "" {
		holder = layer
	}
	if err := checkID("layer", holder); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	dir, err := s.areaDir(holder, area)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if dir == "" {
		return nil, fmt.Errorf("open %s: %s has no directory for %s: %w", path, holder, area, os.ErrNotExist)
	}
	f, err := s.home.OpenFile("layers/" + holder + "/" + dir + "/" + path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open %s: it is missing from %s: %w", path, holder, os.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return f, nil
}

// contentsOf opens the files of one area of a state.
func (s *Store) contentsOf(b Backend, layer, area string) opener {
	return func(path string, e tree.Entry) (io.ReadCloser, error) {
		f, err := s.OpenFile(b, layer, area, path, e)
		if err != nil {
			return nil, err // a nil *os.File must not become a non-nil interface
		}
		return f, nil
	}
}

package carry

import (
	"fmt"
	"path"
)

// order checks that the entries of a stream make one tree. Each is in the directory that
// is being sent, or in one above it, and the names of a directory come in their order, as
// a sender writes them. So nothing lies below a link or a file, and no name comes twice.
type order struct {
	dirs []orderedDir
}

type orderedDir struct {
	path string
	last string // the last name in it
}

// take takes the next entry.
func (o *order) take(e Entry) error {
	if e.Path != "" {
		parent, name := path.Dir(e.Path), path.Base(e.Path)
		if parent == "." {
			parent = ""
		}
		for len(o.dirs) > 0 && o.dirs[len(o.dirs)-1].path != parent {
			o.dirs = o.dirs[:len(o.dirs)-1]
		}
		if len(o.dirs) == 0 || o.dirs[len(o.dirs)-1].last >= name {
			return fmt.Errorf("%w: %q is out of place", ErrStream, e.Path)
		}
		o.dirs[len(o.dirs)-1].last = name
	}
	if e.Type.IsDir() {
		o.dirs = append(o.dirs, orderedDir{path: e.Path})
	}
	return nil
}

package transfer

import (
	"path"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/incell/carry"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// CopyTarget is where a copy out of a cell is written.
type CopyTarget struct {
	dir  *fsx.Dir
	name string
	// isDir means that the copy must be a directory.
	isDir bool
}

// OpenCopyTarget returns the target of a copy. host is the absolute path of the
// destination. The name is what the caller typed, never what the cell or its daemon says.
func OpenCopyTarget(req api.CopyRequest, host string) (*CopyTarget, error) {
	base, isDir := typedName(req)
	dir, name, err := carry.Place(host, base)
	if err != nil {
		return nil, api.Usagef("", "%s: %v", quote.Path(req.Host), quote.Cause(err))
	}
	return &CopyTarget{dir: dir, name: name, isDir: isDir}, nil
}

// Close closes the directory of the target.
func (t *CopyTarget) Close() error { return t.dir.Close() }

// typedName returns the name of a copy in a directory, as the caller typed it: the last
// part of the path. A path without a name, such as "." or "..", has that of the cell.
// It also reports whether the path can only be that of a directory.
func typedName(req api.CopyRequest) (name string, isDir bool) {
	clean := path.Clean(req.Path)
	switch name = path.Base(clean); name {
	case ".", "..", "/":
		return req.Cell, true
	}
	return name, strings.HasSuffix(req.Path, "/") || strings.HasSuffix(req.Path, "/.")
}

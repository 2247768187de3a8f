package tree

import (
	"fmt"
	"strings"
)

// maxPath is the length of the longest path that a system call accepts.
const maxPath = 4095

// LongPathError means that a path is longer than maxPath.
type LongPathError struct{ Path string }

func (e *LongPathError) Error() string {
	return fmt.Sprintf("below %q there is a path of more than %d bytes", e.Top(), maxPath)
}

// Top returns the first name of the path.
func (e *LongPathError) Top() string {
	top, _, _ := strings.Cut(e.Path, "/")
	return top
}

// CheckLength returns a *LongPathError for a path that is longer than maxPath.
func CheckLength(path string) error {
	if len(path) > maxPath {
		return &LongPathError{path}
	}
	return nil
}

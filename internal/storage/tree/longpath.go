package tree

import (
	"fmt"
	"strings"
)

// MaxPath is the length of the longest path that a system call accepts.
const MaxPath = 4095

// LongPathError means that a path is longer than MaxPath.
type LongPathError struct{ Path string }

func (e *LongPathError) Error() string {
	return fmt.Sprintf("below %q there is a path of more than %d bytes", e.Top(), MaxPath)
}

// Top returns the first name of the path.
func (e *LongPathError) Top() string {
	top, _, _ := strings.Cut(e.Path, "/")
	return top
}

// CheckLength returns a *LongPathError for a path that is longer than MaxPath.
func CheckLength(path string) error {
	if len(path) > MaxPath {
		return &LongPathError{path}
	}
	return nil
}

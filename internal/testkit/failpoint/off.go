//go:build !failpoints

package failpoint

// Hit marks an instant. In this build it does nothing.
func Hit(string) {}

// Err marks an operation that a test may make fail. In this build it never does.
func Err(string) error { return nil }

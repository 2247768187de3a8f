//go:build race

package native

// raceDetector says that this binary, and so the first process of every cell,
// sleeps for a second before it ends.
const raceDetector = true

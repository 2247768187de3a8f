//go:build race

package driver

// raceDetector says that this binary, and so every first process of a cell and
// every attacker, is a slow one.
const raceDetector = true

//go:build !race

package native

const raceDetector = false

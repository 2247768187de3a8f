package protocol

import (
	"math"
	"testing"
	"time"
)

// What the init says of a command's time counts within what the host saw.
func TestCommandTook(t *testing.T) {
	t.Parallel()
	const elapsed = time.Second
	for said, expected := range map[time.Duration]time.Duration{
		time.Millisecond: time.Millisecond,
		elapsed:          elapsed,
		elapsed + 1:      elapsed,
		math.MaxInt64:    elapsed,
		0:                elapsed,
		-time.Second:     elapsed,
		math.MinInt64:    elapsed,
	} {
		if got := (Report{Took: said}).CommandTook(elapsed); got != expected {
			t.Errorf("said %v: %v, want %v", said, got, expected)
		}
	}
}

package cell

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// maxScoreLine is the longest last line of a judge that can be a number.
const maxScoreLine = 4096

// Score reads what a judge prints, and keeps its end.
type Score struct {
	end []byte
	cut bool // there was more before it
}

// Write takes a part of the output. It never fails.
func (l *Score) Write(p []byte) (int, error) {
	l.end = append(l.end, p[max(0, len(p)-maxScoreLine):]...)
	if more := len(l.end) - maxScoreLine; more > 0 || len(p) > maxScoreLine {
		l.end, l.cut = append([]byte{}, l.end[max(0, more):]...), true
	}
	return len(p), nil
}

// Number returns the last line that is not blank as a finite decimal number, or nil.
func (l *Score) Number() *float64 {
	text := bytes.TrimRight(l.end, " \t\r\n")
	start := bytes.LastIndexByte(text, '\n') + 1
	line := strings.TrimSpace(string(text[start:]))
	if l.cut && start == 0 || strings.Trim(line, "0123456789+-.eE") != "" {
		return nil
	}
	n, err := strconv.ParseFloat(line, 64)
	if err != nil || math.IsInf(n, 0) {
		return nil
	}
	return &n
}

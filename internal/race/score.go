package race

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// maxLine is the longest last line of a judge that can be a number.
const maxLine = 4096

// lastLine keeps the end of a judge's output.
type lastLine struct {
	end []byte
	cut bool // there was more before it
}

func (l *lastLine) Write(p []byte) (int, error) {
	l.end = append(l.end, p[max(0, len(p)-maxLine):]...)
	if more := len(l.end) - maxLine; more > 0 || len(p) > maxLine {
		l.end, l.cut = append([]byte{}, l.end[max(0, more):]...), true
	}
	return len(p), nil
}

// number returns the last line that is not blank as a finite decimal number, or nil.
func (l *lastLine) number() *float64 {
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

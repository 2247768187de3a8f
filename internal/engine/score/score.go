// Package score reads the number that the judge of a race prints.
//
// It must not know attempts, cells or what a number means.
package score

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// MaxLine is the longest last line of a judge that can be a number.
const MaxLine = 4096

// Reader takes what a judge prints, and keeps its end. The zero value is ready for use.
type Reader struct {
	end []byte
	cut bool // there was more before it
}

// OfEnd returns the number at the end of an output, as Number does. cut says that there
// was more before it.
func OfEnd(end []byte, cut bool) *float64 { return (&Reader{end: end, cut: cut}).Number() }

// Write takes a part of the output. It never fails.
func (r *Reader) Write(p []byte) (int, error) {
	r.end = append(r.end, p[max(0, len(p)-MaxLine):]...)
	if more := len(r.end) - MaxLine; more > 0 || len(p) > MaxLine {
		r.end, r.cut = append([]byte{}, r.end[max(0, more):]...), true
	}
	return len(p), nil
}

// Number returns the last line that is not blank as a finite decimal number, or nil.
func (r *Reader) Number() *float64 {
	text := bytes.TrimRight(r.end, " \t\r\n")
	start := bytes.LastIndexByte(text, '\n') + 1
	line := strings.TrimSpace(string(text[start:]))
	if r.cut && start == 0 || strings.Trim(line, "0123456789+-.eE") != "" {
		return nil
	}
	n, err := strconv.ParseFloat(line, 64)
	if err != nil || math.IsInf(n, 0) {
		return nil
	}
	return &n
}

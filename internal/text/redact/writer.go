package redact

import (
	"bytes"
	"cmp"
	"io"
	"slices"
)

// minLength is the length from which a value is replaced in output. Shorter ones
// occur by chance everywhere.
const minLength = 4

type replacement struct {
	value []byte
	by    []byte
}

type writer struct {
	w       io.Writer
	byFirst [256][]replacement // longest first
	held    []byte             // may be the start of a secret
	out     []byte
	err     error
}

// NewWriter returns a writer that passes everything on to w, with each value of at
// least four bytes replaced by "[redacted:NAME]", also across the borders of
// writes. At one position the longest value is replaced; of equal values the first
// name is used. Close passes on what is held back and leaves w open.
//
// It is for one goroutine.
func NewWriter(w io.Writer, secrets []Secret) io.WriteCloser {
	r := &writer{w: w}
	seen := map[string]bool{}
	for _, s := range secrets {
		if len(s.Value) < minLength || seen[s.Value] {
			continue
		}
		seen[s.Value] = true
		c := s.Value[0]
		r.byFirst[c] = append(r.byFirst[c], replacement{[]byte(s.Value), []byte("[redacted:" + s.Name + "]")})
	}
	for c := range r.byFirst {
		slices.SortFunc(r.byFirst[c], func(a, b replacement) int { return cmp.Compare(len(b.value), len(a.value)) })
	}
	return r
}

func (r *writer) Write(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	r.held = append(r.held, p...)
	r.flush(false)
	if r.err != nil {
		return 0, r.err
	}
	return len(p), nil
}

func (r *writer) Close() error {
	if r.err == nil {
		r.flush(true)
	}
	return r.err
}

// flush passes on what is decided, and at the end everything.
func (r *writer) flush(end bool) {
	b, out := r.held, r.out[:0]
	start, i := 0, 0 // b[start:i] is plain
scan:
	for i < len(b) {
		for _, c := range r.byFirst[b[i]] {
			rest := b[i:]
			if len(rest) < len(c.value) {
				if !end && bytes.HasPrefix(c.value, rest) {
					break scan
				}
				continue
			}
			if bytes.HasPrefix(rest, c.value) {
				out = append(append(out, b[start:i]...), c.by...)
				i += len(c.value)
				start = i
				continue scan
			}
		}
		i++
	}
	out = append(out, b[start:i]...)
	if len(out) > 0 {
		_, r.err = r.w.Write(out)
	}
	r.held = append(r.held[:0], b[i:]...)
	r.out = out
}

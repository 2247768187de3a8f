package rest

import (
	"sync"

	"github.com/forkcell/forkcell/internal/api"
)

// maxOutput bounds what an answer has of one stream.
const maxOutput = 1 << 20

// buffer keeps the first bytes of a stream.
type buffer struct {
	mu   sync.Mutex
	data []byte
	cut  bool
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	room := maxOutput - len(b.data)
	if room < len(p) {
		b.cut = true
	}
	b.data = append(b.data, p[:min(room, len(p))]...)
	return len(p), nil
}

// text returns the bytes as text, or else as they are.
func (b *buffer) text() (string, []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return api.OutputText(b.data, b.cut)
}

// output is both streams of a command.
type output struct{ stdout, stderr buffer }

func (o *output) document() api.Output {
	var doc api.Output
	doc.Stdout, doc.StdoutBase64 = o.stdout.text()
	doc.Stderr, doc.StderrBase64 = o.stderr.text()
	doc.Truncated = o.stdout.cut || o.stderr.cut
	return doc
}

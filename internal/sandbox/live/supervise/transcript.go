package supervise

import (
	"context"
	"slices"
	"sync"
)

// maxTranscript is the amount of recent output that a live cell can show before it
// is stopped. All output is stored.
const maxTranscript = 1 << 20

// maxPart bounds the output in one answer.
const maxPart = 256 << 10

// shortChunk is the size up to which chunks are joined. A command that writes single bytes
// must not use many times their number in the memory of the supervisor.
const shortChunk = 4 << 10

// transcript holds the last output of all commands of a live cell, in the order
// in which it came, with secret values taken out.
type transcript struct {
	mu      sync.Mutex
	chunks  []outputChunk
	start   uint64 // place of the first byte kept
	end     uint64
	ended   bool
	changed chan struct{} // closed at the next change
}

func newTranscript() *transcript { return &transcript{changed: make(chan struct{})} }

func (t *transcript) add(stderr bool, p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.extend(stderr, p) {
		for part := range slices.Chunk(p, maxPart) {
			t.chunks = append(t.chunks, outputChunk{Stderr: stderr, Data: slices.Clone(part)})
		}
	}
	t.end += uint64(len(p))
	for t.end-t.start > maxTranscript {
		t.start += uint64(len(t.chunks[0].Data))
		t.chunks = t.chunks[1:]
	}
	t.wake()
}

// extend adds to the last chunk, if that is a short one of the same stream. Readers may
// have the bytes that the chunk has already: they do not change.
func (t *transcript) extend(stderr bool, p []byte) bool {
	if len(t.chunks) == 0 {
		return false
	}
	last := &t.chunks[len(t.chunks)-1]
	if last.Stderr != stderr || len(last.Data)+len(p) > shortChunk {
		return false
	}
	last.Data = append(last.Data, p...)
	return true
}

func (t *transcript) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *transcript) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.wake()
}

// read returns the output from an offset on; with wait, it waits until there is
// some.
func (t *transcript) read(ctx context.Context, from uint64, wait bool) (*outputPart, error) {
	for {
		part, changed := t.part(from)
		if len(part.Chunks) > 0 || part.Ended || !wait {
			return part, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (t *transcript) part(from uint64) (*outputPart, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &outputPart{Next: min(from, t.end), Chunks: []outputChunk{}}
	if p.Next < t.start {
		p.Skipped, p.Next = t.start-p.Next, t.start
	}
	at, size := t.start, 0
	for _, c := range t.chunks {
		next := at + uint64(len(c.Data))
		if next > p.Next {
			c.Data = c.Data[p.Next-at:]
			if size > 0 && size+len(c.Data) > maxPart {
				break
			}
			p.Chunks, p.Next, size = append(p.Chunks, c), next, size+len(c.Data)
		}
		at = next
	}
	p.Ended = t.ended && p.Next == t.end
	return p, t.changed
}

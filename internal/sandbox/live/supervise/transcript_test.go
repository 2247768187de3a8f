package supervise

import (
	"bytes"
	"testing"
)

// TestTranscriptOfSingleBytes: single bytes are kept in few chunks, and are read from
// any place.
func TestTranscriptOfSingleBytes(t *testing.T) {
	t.Parallel()
	tr := newTranscript()
	const n = 3 * maxTranscript / 2
	var want []byte
	for i := range n {
		b := []byte{byte(i)}
		tr.add(i == n-1, b)
		want = append(want, b...)
	}
	if len(tr.chunks) > 2*maxTranscript/shortChunk {
		t.Errorf("%d chunks", len(tr.chunks))
	}
	if kept := tr.end - tr.start; kept > maxTranscript || kept < maxTranscript-shortChunk {
		t.Errorf("%d bytes are kept", kept)
	}
	for _, from := range []uint64{tr.start, tr.start + 1, n - 5000, n - 1} {
		var got []byte
		var stderr []byte
		for at := from; at < n; {
			part, _ := tr.part(at)
			for _, c := range part.Chunks {
				got = append(got, c.Data...)
				if c.Stderr {
					stderr = append(stderr, c.Data...)
				}
			}
			at = part.Next
		}
		if !bytes.Equal(got, want[from:]) || len(stderr) != 1 {
			t.Errorf("from %d: %d bytes, %d of them of stderr", from, len(got), len(stderr))
		}
	}
}

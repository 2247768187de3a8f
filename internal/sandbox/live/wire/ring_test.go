package wire

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/api/execwire"
)

// modelByte is a byte of output and its stream.
type modelByte struct {
	stream execwire.Kind
	b      byte
}

// TestRing compares the ring with a list of every byte ever written.
func TestRing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 3000).Draw(t, "limit")
		r := &ring{limit: limit}
		var all []modelByte
		for range rapid.IntRange(1, 200).Draw(t, "writes") {
			stream := rapid.SampledFrom([]execwire.Kind{execwire.Stdout, execwire.Stderr}).Draw(t, "stream")
			p := rapid.SliceOfN(rapid.Byte(), 0, min(limit, 400)).Draw(t, "bytes")
			keep := r.start + rapid.Uint64Range(0, r.end-r.start).Draw(t, "keep")
			room := r.room(stream, keep)
			if room > limit || room < 0 {
				t.Fatalf("room for %d bytes of %d", room, limit)
			}
			p = p[:min(len(p), room)]
			r.append(stream, p)
			for _, b := range p {
				all = append(all, modelByte{stream, b})
			}
			if r.end != uint64(len(all)) || r.start > keep || r.end-r.start > uint64(limit) || len(r.segs) > maxSegments {
				t.Fatalf("%d to %d of %d, keeping %d, %d segments", r.start, r.end, len(all), keep, len(r.segs))
			}
			same(t, r, all, r.start+rapid.Uint64Range(0, r.end-r.start).Draw(t, "from"))
		}
	})
}

// same reads everything from a place on.
func same(t *rapid.T, r *ring, all []modelByte, pos uint64) {
	buf := make([]byte, rapid.IntRange(1, 300).Draw(t, "buffer"))
	for pos < r.end {
		stream, n := r.read(pos, buf)
		if n == 0 {
			t.Fatal("nothing was read")
		}
		for _, b := range buf[:n] {
			if all[pos] != (modelByte{stream, b}) {
				t.Fatalf("byte %d is %v, want %v", pos, modelByte{stream, b}, all[pos])
			}
			pos++
		}
	}
}

// A command that changes streams all the time costs no more than a bounded list.
func TestRingManySegments(t *testing.T) {
	t.Parallel()
	r := &ring{limit: 64 << 10}
	for i := range 100_000 {
		r.append([]execwire.Kind{execwire.Stdout, execwire.Stderr}[i%2], []byte{byte(i)})
	}
	if len(r.segs) != maxSegments || r.end-r.start != maxSegments || r.room(execwire.Stdout, r.start) != 0 || r.room(execwire.Stdout, r.end) == 0 {
		t.Errorf("%d segments, %d bytes", len(r.segs), r.end-r.start)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0, 0, 2, '{', '}'})
	f.Add(appendFrame(appendFrame(nil, execwire.Stdin, []byte("abc")), execwire.StdinEnd, nil))
	f.Add([]byte{2, 0, 0xff, 0xff, 0xff, 'x'})
	f.Add([]byte{99, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		in := newFrameReader(bytes.NewReader(data))
		var again []byte
		for {
			k, payload, err := in.next()
			if err != nil {
				break
			}
			limit, ok := limitOf(k)
			if !ok || len(payload) > limit {
				t.Fatalf("a frame of type %d with %d bytes was let through", k, len(payload))
			}
			again = appendFrame(again, k, payload)
		}
		if !bytes.HasPrefix(data, again) {
			t.Fatalf("%x reads as %x", data, again)
		}
	})
}

package wire

import (
	"sort"

	"github.com/forkcell/forkcell/internal/api/execwire"
)

// maxSegments bounds how often the kept output may change between stdout and
// stderr: if a command writes single bytes to both, the list must not take more
// memory than the bytes.
const maxSegments = 1024

// ring keeps the last bytes of a command's output, and the stream of each.
// Positions in it are counted from the command's first byte.
type ring struct {
	limit int
	buf   []byte // position p is at p % len(buf); grows up to limit
	start uint64 // the oldest position kept
	end   uint64 // where the next byte goes
	segs  []segment
}

// segment is a sequence of bytes of one stream; it begins where the previous
// one ends.
type segment struct {
	stream execwire.Kind
	end    uint64
}

// room returns how many bytes can be appended to a stream without dropping
// bytes from position keep on.
func (r *ring) room(stream execwire.Kind, keep uint64) int {
	if len(r.segs) == maxSegments && r.segs[len(r.segs)-1].stream != stream && r.segs[0].end > keep {
		return 0
	}
	return r.limit - int(r.end-keep)
}

// append adds at most limit bytes, and drops the oldest ones to make room.
func (r *ring) append(stream execwire.Kind, p []byte) {
	if len(p) == 0 {
		return
	}
	if over := int(r.end-r.start) + len(p) - r.limit; over > 0 {
		r.forget(r.start + uint64(over))
	}
	if len(r.segs) == maxSegments && r.segs[len(r.segs)-1].stream != stream {
		r.forget(r.segs[0].end)
	}
	r.grow(int(r.end-r.start) + len(p))
	at := int(r.end % uint64(len(r.buf)))
	n := copy(r.buf[at:], p)
	copy(r.buf, p[n:])
	r.end += uint64(len(p))
	if last := len(r.segs) - 1; last >= 0 && r.segs[last].stream == stream {
		r.segs[last].end = r.end
	} else {
		r.segs = append(r.segs, segment{stream: stream, end: r.end})
	}
}

// forget drops everything before a position.
func (r *ring) forget(to uint64) {
	r.start = to
	n := 0
	for n < len(r.segs) && r.segs[n].end <= to {
		n++
	}
	r.segs = r.segs[n:]
}

// grow makes room for size bytes. The buffer starts small, because most
// commands print little and 64 of them are remembered.
func (r *ring) grow(size int) {
	if size <= len(r.buf) {
		return
	}
	next := max(256, len(r.buf))
	for next < size {
		next *= 2
	}
	buf := make([]byte, min(next, r.limit))
	for p := r.start; p < r.end; {
		from := r.buf[p%uint64(len(r.buf)):]
		from = from[:min(uint64(len(from)), r.end-p)]
		to := buf[p%uint64(len(buf)):]
		p += uint64(copy(to, from))
	}
	r.buf = buf
}

// read copies bytes of one stream from position pos, which must be kept and
// before the end.
func (r *ring) read(pos uint64, p []byte) (stream execwire.Kind, n int) {
	i := sort.Search(len(r.segs), func(i int) bool { return r.segs[i].end > pos })
	seg := r.segs[i]
	p = p[:min(uint64(len(p)), seg.end-pos)]
	n = copy(p, r.buf[pos%uint64(len(r.buf)):])
	n += copy(p[n:], r.buf)
	return seg.stream, n
}

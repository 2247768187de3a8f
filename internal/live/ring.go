package live

import "sort"

// maxSegments bounds how often the kept output may change between stdout and
// stderr: a command that writes single bytes to both must not cost more memory
// for the list than for the bytes.
const maxSegments = 1024

// ring keeps the last bytes of a command's output, and of each which stream it
// was written to. Places in it are counted from the command's first byte.
type ring struct {
	limit int
	buf   []byte // place p is at p % len(buf); grows up to limit
	start uint64 // the oldest place kept
	end   uint64 // where the next byte goes
	segs  []segment
}

// segment is a run of bytes of one stream; it begins where the one before ends.
type segment struct {
	stream kind
	end    uint64
}

// room is how many bytes can be appended to a stream so that everything from
// place keep on stays.
func (r *ring) room(stream kind, keep uint64) int {
	if len(r.segs) == maxSegments && r.segs[len(r.segs)-1].stream != stream && r.segs[0].end > keep {
		return 0
	}
	return r.limit - int(r.end-keep)
}

// append adds bytes, no more than limit of them, and forgets the oldest ones to
// make room.
func (r *ring) append(stream kind, p []byte) {
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

// forget drops everything before a place.
func (r *ring) forget(to uint64) {
	r.start = to
	n := 0
	for n < len(r.segs) && r.segs[n].end <= to {
		n++
	}
	r.segs = r.segs[n:]
}

// grow makes room for size bytes. Most commands print little, and 64 of them are
// remembered.
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

// read copies bytes of one stream from place pos, which is kept and before the
// end.
func (r *ring) read(pos uint64, p []byte) (stream kind, n int) {
	i := sort.Search(len(r.segs), func(i int) bool { return r.segs[i].end > pos })
	seg := r.segs[i]
	p = p[:min(uint64(len(p)), seg.end-pos)]
	n = copy(p, r.buf[pos%uint64(len(r.buf)):])
	n += copy(p[n:], r.buf)
	return seg.stream, n
}

package publish

import (
	"bufio"
	"errors"
	"hash/maphash"
	"io"
)

const (
	// longLine is how many bytes of a changed line count as one line.
	longLine = 400
	// maxCompared bounds the files of which only the lines that differ are counted. Of
	// larger ones each byte is.
	maxCompared = 4 << 20
)

// weigh counts the changed bytes, and more than one line for each long one.
func (g *gates) weigh(edits []edit, binary map[string]bool) error {
	for _, e := range edits {
		w, err := g.weight(e, binary[e.path])
		if err != nil {
			return err
		}
		g.size.Bytes += w.bytes
		g.size.Lines += w.more
	}
	return nil
}

// weight is what a change adds to the size of a publication.
type weight struct {
	bytes int64
	more  int // lines beside those that git counts
}

// count adds a changed line.
func (w *weight) count(length int64) {
	w.bytes += length
	w.more += int(max(length-1, 0) / longLine)
}

// weight counts the bytes of the lines that only one side of an edit has. A binary file
// has one line, which is none.
func (g *gates) weight(e edit, binary bool) (weight, error) {
	var w weight
	was, err := g.sizeOf(e.old, e.was)
	if err != nil {
		return w, err
	}
	now, err := g.sizeOf(e.now, e.stored)
	if err != nil || same(blobOf(e.old), blobOf(e.now)) {
		return w, err
	}
	if binary || was+now > maxCompared {
		if w.count(was + now); binary {
			w.more = 0
		}
		return w, nil
	}
	seed := maphash.MakeSeed()
	left := map[uint64]int{}
	lengths := map[uint64]int64{}
	err = errors.Join(
		g.lengths(e.old, e.was, seed, func(id uint64, length int64) { left[id]++; lengths[id] = length }),
		g.lengths(e.now, e.stored, seed, func(id uint64, length int64) { left[id]--; lengths[id] = length }))
	for id, n := range left {
		for range max(n, -n) {
			w.count(lengths[id])
		}
	}
	return w, err
}

// blobOf returns an object without its mode.
func blobOf(o *object) *object {
	if o == nil {
		return nil
	}
	return &object{id: o.id}
}

// sizeOf returns the size of one side of an edit; 0 if there is none.
func (g *gates) sizeOf(o *object, name string) (int64, error) {
	if o == nil {
		return 0, nil
	}
	info, err := g.s.dir.Lstat(name)
	if err != nil {
		return 0, err
	}
	return info.Size, nil
}

// lengths calls fn with a hash of each line of one side of an edit and its length.
func (g *gates) lengths(o *object, name string, seed maphash.Seed, fn func(id uint64, length int64)) error {
	if o == nil {
		return nil
	}
	f, err := g.s.dir.OpenFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			fn(maphash.Bytes(seed, line), int64(len(line)))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

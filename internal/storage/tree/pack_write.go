package tree

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// AreaRoots are the identity of an area and the totals of what is in it; the
// root directory itself is not counted.
type AreaRoots struct {
	Root, Meta         Hash
	Files, Dirs, Bytes int64
}

// Writer makes the pack of one new layer. It writes only what is new; nodes of
// older packs are referred to by their place. It is safe for concurrent use, so
// that directories can be made in parallel; one DirEdit belongs to one
// goroutine.
type Writer struct {
	layer string
	rd    *reader

	// table is apart from the output so that encoding does not wait for it.
	tableMu sync.Mutex
	layers  []string
	places  map[string]uint64

	mu     sync.Mutex
	out    *bufio.Writer
	back   io.ReaderAt // to read own nodes again; nil when the output cannot
	offset int64
	areas  []area
	err    error // the first failure of the output
	closed bool
}

// NewWriter begins the pack of a layer. p finds older packs and may be nil when
// there are none. The pack begins where w begins; if w is an io.ReaderAt too, as
// a file is, nodes of the new pack can be edited again.
func NewWriter(w io.Writer, layer string, p Packs) (*Writer, error) {
	if err := validLayer(layer); err != nil {
		return nil, fmt.Errorf("new manifest: %w", err)
	}
	wr := &Writer{
		layer: layer, rd: newReader(p), out: bufio.NewWriterSize(w, 1<<16),
		layers: []string{layer}, places: map[string]uint64{layer: 0},
	}
	wr.back, _ = w.(io.ReaderAt)
	wr.rd.own = wr.own
	if _, err := wr.append(packHeader(layer, packVersion)); err != nil {
		return nil, err
	}
	return wr, nil
}

// place adds a layer to the table and returns its index.
func (w *Writer) place(layer string) uint64 {
	w.tableMu.Lock()
	defer w.tableMu.Unlock()
	i, ok := w.places[layer]
	if !ok {
		i = uint64(len(w.layers))
		w.layers = append(w.layers, layer)
		w.places[layer] = i
	}
	return i
}

func (w *Writer) table() []string {
	w.tableMu.Lock()
	defer w.tableMu.Unlock()
	return slices.Clone(w.layers)
}

// append writes bytes and returns where they are.
func (w *Writer) append(b []byte) (ref, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return ref{}, w.err
	}
	if w.closed {
		return ref{}, fmt.Errorf("manifest of layer %q is closed: %w", w.layer, errInvalid)
	}
	r := ref{layer: w.layer, offset: w.offset, length: int64(len(b))}
	if _, err := w.out.Write(b); err != nil {
		return ref{}, w.keepError(err)
	}
	w.offset += r.length
	return r, nil
}

// keepError keeps the first error of the output: after it nothing can be right.
func (w *Writer) keepError(err error) error {
	w.err = fmt.Errorf("write manifest of layer %q: %w", w.layer, err)
	return w.err
}

// store writes the new parts below p, and p, and fills in their places.
func (w *Writer) store(p *part, level int) error {
	if p.absent() || p.ref.length != 0 {
		return nil
	}
	if p.body.kids != nil {
		for i := range p.body.kids {
			if err := w.store(&p.body.kids[i], level+1); err != nil {
				return err
			}
		}
	}
	e := &encoder{index: w.place, b: make([]byte, 0, 128*(len(p.body.entries)+fanOut))}
	e.encodeBody(level, p.body)
	b, err := e.finish()
	if err != nil {
		return err
	}
	if p.ref, err = w.append(b); err != nil {
		return err
	}
	p.body = nil
	return nil
}

// own lets the reader see the pack that is being written.
func (w *Writer) own(layer string) (*pack, bool, error) {
	if layer != w.layer {
		return nil, false, nil
	}
	if w.back == nil {
		return nil, true, fmt.Errorf("manifest of layer %q: its output cannot be read back: %w", layer, errors.ErrUnsupported)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil, true, w.err
	}
	if err := w.out.Flush(); err != nil {
		return nil, true, w.keepError(err)
	}
	start := int64(fixedHeader + len(layer))
	return &pack{layer: layer, version: packVersion, r: w.back, start: start, end: w.offset, layers: w.table()}, true, nil
}

// SetArea adds an area to the new manifest. root is the entry of its root
// directory; its name is not kept.
func (w *Writer) SetArea(name string, root Entry, l Links) error {
	links, err := w.storeLinks(name, l)
	if err != nil {
		return err
	}
	return w.setArea(name, root, links, false)
}

// storeLinks writes a table of links, if there are any.
func (w *Writer) storeLinks(name string, l Links) (linksRef, error) {
	if err := l.check(); err != nil {
		return linksRef{}, fmt.Errorf("area %q: %w", name, err)
	}
	links := linksRef{hash: hashLinks(l)}
	if len(l.Groups) == 0 {
		return links, nil
	}
	e := &encoder{index: w.place}
	e.links(l)
	b, err := e.finish()
	if err != nil {
		return linksRef{}, fmt.Errorf("area %q: %w", name, err)
	}
	links.ref, err = w.append(b)
	return links, err
}

// SetAreaKeepLinks is SetArea, or SetChanges, with the hard links of another
// tree of that sort. They are referred to where they are, neither read nor
// written.
func (w *Writer) SetAreaKeepLinks(name string, root Entry, from *Tree) error {
	return w.setArea(name, root, from.area.links, from.area.changes)
}

// validArea accepts any name that can be read again; it is no path.
func validArea(name string) error {
	if name == "" || len(name) > maxArea || strings.IndexByte(name, 0) >= 0 {
		return fmt.Errorf("area %q: %w", name, errInvalid)
	}
	return nil
}

func (w *Writer) setArea(name string, root Entry, links linksRef, changes bool) error {
	if err := validArea(name); err != nil {
		return err
	}
	root.Name = ""
	root, err := canonical(root)
	if err != nil {
		return fmt.Errorf("root of area %q: %w", name, err)
	}
	if root.Kind != KindDir || !changes && (root.Opaque || root.Below != (Below{})) {
		return fmt.Errorf("root of area %q: %s: %w", name, root.Kind, errInvalid)
	}
	a := area{name: name, layer: w.layer, changes: changes, entry: root, links: links}
	a.root, a.meta = hashArea(&a, viewRoot), hashArea(&a, viewMeta)
	w.mu.Lock()
	defer w.mu.Unlock()
	i, twice := slices.BinarySearchFunc(w.areas, name, func(a area, s string) int { return strings.Compare(a.name, s) })
	if twice || len(w.areas) >= maxAreas {
		return fmt.Errorf("duplicate area %q, or too many areas: %w", name, errInvalid)
	}
	w.areas = slices.Insert(w.areas, i, a)
	return nil
}

// Close writes the footer. The caller makes the pack durable and closes what it
// was written to.
func (w *Writer) Close() (map[string]AreaRoots, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil, w.err
	}
	if w.closed {
		return nil, fmt.Errorf("manifest of layer %q is closed: %w", w.layer, errInvalid)
	}
	w.closed = true
	areas := &encoder{index: w.place}
	areas.uint(uint64(len(w.areas)))
	roots := make(map[string]AreaRoots, len(w.areas))
	for i := range w.areas {
		a := &w.areas[i]
		areas.area(a)
		sub := a.entry.Sub
		roots[a.name] = AreaRoots{Root: a.root, Meta: a.meta, Files: sub.Files, Dirs: sub.Dirs, Bytes: sub.Bytes}
	}
	// The areas come first here because they may add to the table.
	table := w.table()
	f := &encoder{}
	f.uint(uint64(len(table)))
	for _, layer := range table {
		f.string(layer)
	}
	f.b = append(f.b, areas.b...)
	if len(f.b) > maxFooter {
		return nil, w.keepError(fmt.Errorf("footer of %d bytes: %w", len(f.b), errInvalid))
	}
	sum := footerSum(packHeader(w.layer, packVersion), f.b, w.offset)
	f.b = binary.BigEndian.AppendUint64(f.b, uint64(w.offset))
	f.b = append(f.b, sum[:]...)
	f.b = append(f.b, endMagic...)
	if _, err := w.out.Write(f.b); err != nil {
		return nil, w.keepError(err)
	}
	if err := w.out.Flush(); err != nil {
		return nil, w.keepError(err)
	}
	return roots, nil
}

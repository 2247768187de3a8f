package tree

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	packMagic   = "forkpack"
	endMagic    = "packdone"
	packVersion = 2 // what is written; all from 1 on are read

	fixedHeader = len(packMagic) + 4 + 1                 // magic, version, length of the layer's name
	minHeader   = int64(fixedHeader) + 1                 // a name has at least one byte
	trailerSize = int64(8 + sha256.Size + len(endMagic)) // place of the footer, checksum, magic
	maxFooter   = 1 << 28
	maxAreas    = 1 << 12
	maxArea     = 1 << 13 // longer than a path with a word before it
)

// The marks of an area in the footer.
const (
	areaLinks   = 1 // it has hard links
	areaChanges = 2 // it is a tree of changes
)

var errHash = errors.New("hash does not match")

// Packs finds the pack of a layer and its length. What it returns stays open as
// long as a tree that may need it; closing is the business of its owner. It
// must be safe for concurrent use.
type Packs interface {
	Pack(layer string) (io.ReaderAt, int64, error)
}

// area is one tree as the footer of a pack records it.
type area struct {
	name       string
	layer      string // of the pack
	changes    bool   // over a directory of the host
	entry      Entry  // of the root
	links      linksRef
	root, meta Hash
}

// pack is an open pack whose header and footer were checked.
type pack struct {
	layer      string
	version    uint32
	r          io.ReaderAt
	start, end int64 // of the node records
	layers     []string
	areas      []area
}

func (p *pack) corruptError(what string, err error) error { return corruptError(p.layer, what, err) }

func corruptError(layer, what string, err error) error {
	return fmt.Errorf("manifest of layer %q: %s: %w: %w", layer, what, ErrCorrupt, err)
}

// decoder reads the record at an offset, or the footer.
func (p *pack) decoder(b []byte, offset int64) *decoder {
	return &decoder{b: b, version: p.version, layers: p.layers, start: p.start, end: offset}
}

// openPack reads the header and the footer of a layer's pack.
func openPack(packs Packs, layer string) (*pack, error) {
	if err := validLayer(layer); err != nil {
		return nil, fmt.Errorf("open manifest: %w", err)
	}
	if packs == nil {
		return nil, fmt.Errorf("manifest of layer %q: no packs to read: %w", layer, errInvalid)
	}
	r, size, err := packs.Pack(layer)
	if err != nil {
		return nil, fmt.Errorf("manifest of layer %q: %w", layer, err)
	}
	p := &pack{layer: layer, r: r}
	head, err := p.header(size)
	if err != nil {
		return nil, err
	}
	footer, err := p.footer(head, size)
	if err != nil {
		return nil, err
	}
	if err := p.parseFooter(footer); err != nil {
		return nil, p.corruptError("footer", err)
	}
	return p, nil
}

// readAt reads exactly n bytes.
func (p *pack) readAt(what string, offset, n int64) ([]byte, error) {
	b := make([]byte, n)
	switch got, err := p.r.ReadAt(b, offset); {
	case got == len(b):
		return b, nil
	case err == nil || errors.Is(err, io.EOF):
		return nil, p.corruptError(what, io.ErrUnexpectedEOF)
	default:
		return nil, fmt.Errorf("manifest of layer %q: read %s: %w", p.layer, what, err)
	}
}

func (p *pack) header(size int64) ([]byte, error) {
	p.start = int64(fixedHeader + len(p.layer))
	if size < p.start+trailerSize {
		return nil, p.corruptError("header", io.ErrUnexpectedEOF)
	}
	b, err := p.readAt("header", 0, p.start)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(b, []byte(packMagic)) {
		return nil, p.corruptError("header", errors.New("not a manifest"))
	}
	p.version = binary.BigEndian.Uint32(b[len(packMagic):])
	if p.version > packVersion {
		return nil, fmt.Errorf("manifest of layer %q: version %d: %w", p.layer, p.version, ErrNewerFormat)
	}
	if p.version < 1 || !bytes.Equal(b, packHeader(p.layer, p.version)) {
		return nil, p.corruptError("header", errors.New("of another version or layer"))
	}
	return b, nil
}

func packHeader(layer string, version uint32) []byte {
	b := []byte(packMagic)
	b = binary.BigEndian.AppendUint32(b, version)
	b = append(b, byte(len(layer)))
	return append(b, layer...)
}

// footer finds the footer and checks its sum, which covers the header too.
func (p *pack) footer(head []byte, size int64) ([]byte, error) {
	t, err := p.readAt("trailer", size-trailerSize, trailerSize)
	if err != nil {
		return nil, err
	}
	if string(t[8+sha256.Size:]) != endMagic {
		return nil, p.corruptError("trailer", errors.New("not finished"))
	}
	at := binary.BigEndian.Uint64(t)
	if at < uint64(p.start) || at > uint64(size-trailerSize) || uint64(size-trailerSize)-at > maxFooter {
		return nil, p.corruptError("trailer", errors.New("footer out of bounds"))
	}
	p.end = int64(at)
	b, err := p.readAt("footer", p.end, size-trailerSize-p.end)
	if err != nil {
		return nil, err
	}
	if footerSum(head, b, p.end) != [sha256.Size]byte(t[8:]) {
		return nil, p.corruptError("footer", errors.New("checksum does not match"))
	}
	return b, nil
}

func footerSum(head, footer []byte, offset int64) [sha256.Size]byte {
	h := sha256.New()
	h.Write(head)
	h.Write(footer)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(offset)))
	return [sha256.Size]byte(h.Sum(nil))
}

func (p *pack) parseFooter(b []byte) error {
	d := p.decoder(b, p.end)
	seen := make(map[string]bool)
	for range d.count(maxFooter, 2) {
		layer := d.string(maxLayer)
		if d.err != nil {
			break
		}
		if err := validLayer(layer); err != nil {
			return err
		}
		if seen[layer] || len(d.layers) == 0 && layer != p.layer {
			return errors.New("wrong table of layers")
		}
		seen[layer] = true
		d.layers = append(d.layers, layer)
	}
	if d.err == nil && len(d.layers) == 0 {
		return errors.New("no table of layers")
	}
	for range d.count(maxAreas, minEntry) {
		a, err := d.area()
		if err != nil {
			return err
		}
		a.layer = p.layer
		if n := len(p.areas); n > 0 && p.areas[n-1].name >= a.name {
			return errors.New("areas are not in order")
		}
		p.areas = append(p.areas, a)
	}
	p.layers = d.layers
	return d.done()
}

func (e *encoder) area(a *area) {
	e.string(a.name)
	e.entry(&a.entry)
	var marks byte
	if a.changes {
		marks |= areaChanges
	}
	if a.links.ref.length != 0 {
		marks |= areaLinks
	}
	e.byte(marks)
	if marks&areaLinks != 0 {
		e.hash(a.links.hash)
		e.ref(a.links.ref)
	}
	e.hash(a.root)
	e.hash(a.meta)
}

func (d *decoder) area() (area, error) {
	a := area{name: d.string(maxArea), entry: d.entry()}
	marks := d.byte()
	a.changes = marks&areaChanges != 0
	switch {
	case marks > areaLinks|areaChanges:
		d.fail("unknown kind of area")
	case marks&areaLinks != 0:
		a.links = linksRef{hash: d.hash(), ref: d.ref()}
	default:
		a.links.hash = hashLinks(Links{})
	}
	a.root, a.meta = d.hash(), d.hash()
	switch {
	case d.err != nil:
		return area{}, d.err
	case validArea(a.name) != nil:
		return area{}, validArea(a.name)
	case a.entry.Name != "" || a.entry.Kind != KindDir:
		return area{}, errors.New("the root of an area is not a nameless directory")
	case !a.changes && (a.entry.Opaque || a.entry.Below != (Below{})):
		return area{}, errors.New("the root of a plain area is that of a tree of changes")
	case a.root != hashArea(&a, viewRoot), a.meta != hashArea(&a, viewMeta):
		return area{}, fmt.Errorf("area %q: %w", a.name, errHash)
	}
	return a, nil
}

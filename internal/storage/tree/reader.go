package tree

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

const (
	cacheBytes = 4 << 20  // of records as they are stored, in one manifest
	cacheOne   = 64 << 10 // longer records are not kept
	growAtOnce = 1 << 16  // entries to reserve room for: a total may be a lie
)

// Manifest is the pack of one layer, open for reading, with the packs that it
// refers to. It is safe for concurrent use.
type Manifest struct {
	pack *pack
	rd   *reader
}

// Load opens the pack of a layer. Header and footer are checked here, each node
// when it is read.
func Load(p Packs, layer string) (*Manifest, error) {
	rd := newReader(p)
	pk, err := rd.pack(layer)
	if err != nil {
		return nil, err
	}
	return &Manifest{pack: pk, rd: rd}, nil
}

// Layer is the layer whose manifest this is.
func (m *Manifest) Layer() string { return m.pack.layer }

// Refers lists the layers that this pack refers to directly, for nodes or for
// the bytes of files, itself first. Their packs may refer to others.
func (m *Manifest) Refers() []string { return slices.Clone(m.pack.layers) }

// Areas lists the names of the areas, sorted.
func (m *Manifest) Areas() []string {
	names := make([]string, len(m.pack.areas))
	for i := range m.pack.areas {
		names[i] = m.pack.areas[i].name
	}
	return names
}

// Area is the tree of an area.
func (m *Manifest) Area(name string) (*Tree, bool) {
	for i := range m.pack.areas {
		if a := &m.pack.areas[i]; a.name == name {
			return &Tree{area: a, rd: m.rd}, true
		}
	}
	return nil, false
}

// reader reads records of any pack and keeps the last ones.
type reader struct {
	packs Packs
	// own answers for the layer that is being written; nil in a manifest.
	own func(layer string) (*pack, bool, error)

	mu    sync.Mutex
	open  map[string]*pack
	kept  map[cacheKey]*kept
	order []cacheKey // oldest first
	bytes int64
}

// cacheKey has the spot too: whether a record is right depends on it.
type cacheKey struct {
	ref ref
	at  slotPath
}

type kept struct {
	part part // hashes and totals that the record was found to have
	body *body
}

func newReader(p Packs) *reader {
	return &reader{packs: p, open: make(map[string]*pack), kept: make(map[cacheKey]*kept)}
}

// pack opens the pack of a layer, once.
func (rd *reader) pack(layer string) (*pack, error) {
	if rd.own != nil {
		if p, yes, err := rd.own(layer); yes || err != nil {
			return p, err
		}
	}
	rd.mu.Lock()
	p := rd.open[layer]
	rd.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := openPack(rd.packs, layer)
	if err != nil {
		return nil, err
	}
	rd.mu.Lock()
	defer rd.mu.Unlock()
	if first := rd.open[layer]; first != nil {
		return first, nil
	}
	rd.open[layer] = p
	return p, nil
}

// record reads one record and checks and removes its checksum.
func (rd *reader) record(r ref) (*pack, []byte, error) {
	if r.length == 0 {
		return nil, nil, fmt.Errorf("read manifest: node without a place: %w", errInvalid)
	}
	p, err := rd.pack(r.layer)
	if err != nil {
		return nil, nil, err
	}
	what := fmt.Sprintf("record at %d", r.offset)
	if r.offset < p.start || r.length < minRecord || r.length > p.end-r.offset {
		return nil, nil, p.corruptError(what, errors.New("out of bounds"))
	}
	raw, err := p.readAt(what, r.offset, r.length)
	if err != nil {
		return nil, nil, err
	}
	b, err := unwrap(raw)
	if err != nil {
		return nil, nil, p.corruptError(what, err)
	}
	return p, b, nil
}

// read reads the body of a part that stands at a spot of its directory, and
// completes the part's totals. It checks everything that the part states.
func (rd *reader) read(p *part, at slotPath) (*body, error) {
	if p.body != nil {
		return p.body, nil
	}
	key := cacheKey{p.ref, at}
	rd.mu.Lock()
	k := rd.kept[key]
	rd.mu.Unlock()
	if k == nil {
		var err error
		if k, err = rd.load(p.ref, at); err != nil {
			return nil, err
		}
		rd.keep(key, k)
	}
	if err := k.part.matches(p); err != nil {
		return nil, corruptError(p.ref.layer, fmt.Sprintf("record at %d", p.ref.offset), err)
	}
	p.entries = k.part.entries
	return k.body, nil
}

func (rd *reader) load(r ref, at slotPath) (*kept, error) {
	p, raw, err := rd.record(r)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("record at %d", r.offset)
	b, err := p.decoder(raw, r.offset).decodeBody(len(at))
	if err != nil {
		return nil, p.corruptError(what, err)
	}
	for i := range b.entries {
		if !at.holds(b.entries[i].Name) {
			return nil, p.corruptError(what, fmt.Errorf("name %q is in the wrong place", b.entries[i].Name))
		}
	}
	k := &kept{body: b}
	if b.kids == nil {
		k.part = makeLeaf(b.entries)
	} else {
		k.part = makeBranch(len(at), b.kids)
	}
	k.part.body = nil
	return k, nil
}

// matches returns why a record differs from the reference to it.
func (p *part) matches(want *part) error {
	t := p.totals
	if want.entries == unknown {
		t.entries = unknown
	}
	switch {
	case !p.same(want):
		return errHash
	case t != want.totals:
		return errors.New("totals do not match")
	}
	return nil
}

func (rd *reader) keep(key cacheKey, k *kept) {
	if key.ref.length > cacheOne {
		return
	}
	rd.mu.Lock()
	defer rd.mu.Unlock()
	if rd.kept[key] != nil {
		return
	}
	rd.kept[key] = k
	rd.order = append(rd.order, key)
	rd.bytes += key.ref.length
	for rd.bytes > cacheBytes {
		rd.bytes -= rd.order[0].ref.length
		delete(rd.kept, rd.order[0])
		rd.order = rd.order[1:]
	}
}

// gather collects all entries below a part, sorted by name. The slice belongs to the
// caller, the entries do not: a wide directory would be in memory several times.
func (rd *reader) gather(p part, at slotPath) ([]*Entry, error) {
	all, err := rd.collect(nil, p, at)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *Entry) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (rd *reader) collect(to []*Entry, p part, at slotPath) ([]*Entry, error) {
	if p.absent() {
		return to, nil
	}
	b, err := rd.read(&p, at)
	if err != nil {
		return nil, err
	}
	if b.kids == nil {
		for i := range b.entries {
			to = append(to, &b.entries[i])
		}
		return to, nil
	}
	to = slices.Grow(to, int(min(p.entries, growAtOnce)))
	for i := range b.kids {
		if to, err = rd.collect(to, b.kids[i], at.slot(i)); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// valuesOf returns the entries themselves.
func valuesOf(list []*Entry) []Entry {
	out := make([]Entry, len(list))
	for i, e := range list {
		out[i] = *e
	}
	return out
}

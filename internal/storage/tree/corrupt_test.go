package tree

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
)

// smallPack is a pack that uses every kind of record.
func smallPack(t fataler) []byte {
	m := small()
	for p, e := range wide(66) {
		if p != "." {
			m.put("empty/"+p, e)
		}
	}
	s := store{}
	w := s.writer(t, "one")
	s.finish(t, w, m.build(t, w), smallLinks())
	return s["one"].b
}

// readAll reads everything that a pack has, up to a limit.
func readAll(b []byte) error {
	m, err := Load(onePack(b), "one")
	if err != nil {
		return err
	}
	for _, name := range m.Areas() {
		tr, _ := m.Area(name)
		if _, err := tr.Links(); err != nil {
			return err
		}
		left := 1000
		err := tr.Walk(func(string, Entry) error {
			if left--; left < 0 {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// onePack returns the same pack for every layer.
type onePack []byte

func (p onePack) Pack(string) (io.ReaderAt, int64, error) {
	return bytes.NewReader(p), int64(len(p)), nil
}

func TestEveryFlippedByteIsFound(t *testing.T) {
	t.Parallel()
	b := smallPack(t)
	must(t, 0, readAll(b))
	for i := range b {
		broken := bytes.Clone(b)
		broken[i] ^= 1 << (i % 8)
		err := readAll(broken)
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewerFormat) || !strings.Contains(err.Error(), `layer "one"`) {
			t.Fatalf("byte %d of %d: %v", i, len(b), err)
		}
	}
	for i := range b {
		if err := readAll(b[:i]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d of %d bytes: %v", i, len(b), err)
		}
	}
	if err := readAll(append(bytes.Clone(b), 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("one byte more: %v", err)
	}
}

func TestNewerVersion(t *testing.T) {
	t.Parallel()
	b := smallPack(t)
	b[len(packMagic)+3] = packVersion + 1
	if _, err := Load(onePack(b), "one"); !errors.Is(err, ErrNewerFormat) || errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

func TestMissingPack(t *testing.T) {
	t.Parallel()
	s := store{}
	w := s.writer(t, "one")
	tr := s.finish(t, w, small().build(t, w), Links{})
	w = s.writer(t, "two")
	s.finish(t, w, tr.Root(), Links{})
	delete(s, "one")
	err := s.tree(t, "two").Walk(func(string, Entry) error { return nil })
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), `layer "one"`) {
		t.Error(err)
	}
	for _, layer := range []string{"", "..", "a/b", ".x", strings.Repeat("a", maxLayer+1)} {
		if _, err := Load(s, layer); !errors.Is(err, errInvalid) {
			t.Errorf("%q: %v", layer, err)
		}
		if _, err := NewWriter(io.Discard, layer, s); !errors.Is(err, errInvalid) {
			t.Errorf("%q: %v", layer, err)
		}
	}
}

// TestOtherPack replaces a referenced pack by another valid one.
func TestOtherPack(t *testing.T) {
	t.Parallel()
	s, other := store{}, store{}
	w := s.writer(t, "one")
	tr := s.finish(t, w, wide(10).build(t, w), Links{})
	w = s.writer(t, "two")
	s.finish(t, w, tr.Root(), Links{})
	m := wide(10)
	m.put("file-000003", file("X"))
	w = other.writer(t, "one")
	other.finish(t, w, m.build(t, w), Links{})
	s["one"] = other["one"]
	err := s.tree(t, "two").Walk(func(string, Entry) error { return nil })
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), `layer "one"`) {
		t.Error(err)
	}
}

// makePack makes a well-formed pack around one record and totals of the root.
func makePack(record []byte, node Node) []byte {
	b := packHeader("one", packVersion)
	node.ref = ref{"one", int64(len(b)), int64(len(record) + checkSize)}
	b = binary.BigEndian.AppendUint32(append(b, record...), checksum(record))
	e := &encoder{index: func(string) uint64 { return 0 }}
	e.uint(1)
	e.string("one")
	e.uint(1)
	root := Entry{Kind: KindDir, Sub: node}
	none := linksRef{hash: hashLinks(Links{})}
	a := area{name: "workspace", entry: root, links: none}
	a.root, a.meta = hashArea(&a, viewRoot), hashArea(&a, viewMeta)
	e.area(&a)
	return sealFooter(b, e.b)
}

// sealFooter makes a pack whose footer has a right checksum.
func sealFooter(body, footer []byte) []byte {
	sum := footerSum(packHeader("one", packVersion), footer, int64(len(body)))
	b := append(bytes.Clone(body), footer...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(body)))
	b = append(b, sum[:]...)
	return append(b, endMagic...)
}

func leafRecord(entries []Entry) []byte {
	e := &encoder{index: func(string) uint64 { return 0 }}
	e.encodeBody(0, &body{entries: entries})
	return e.b
}

// TestCraftedPacks has packs with valid checksums and hashes but invalid
// contents.
func TestCraftedPacks(t *testing.T) {
	t.Parallel()
	f := func(name string) Entry { return Entry{Name: name, Kind: KindFifo} }
	many := wide(maxLeaf + 1).children(".")
	for what, entries := range map[string][]Entry{
		"dot dot":       {f("..")},
		"slash":         {f("a/b")},
		"NUL":           {f("\x00")},
		"no name":       {f("")},
		"twice":         {f("a"), f("a")},
		"order":         {f("b"), f("a")},
		"too many":      many,
		"kind":          {{Name: "a", Kind: 9}},
		"target":        {{Name: "a", Kind: KindSymlink}},
		"mode":          {{Name: "a", Kind: KindFifo, Mode: 1 << 20}},
		"itself":        {{Name: "a", Kind: KindDir, Sub: Node{ref: ref{"one", minHeader + 2, 100}}}},
		"out of bounds": {{Name: "a", Kind: KindDir, Sub: Node{ref: ref{"one", 1 << 40, 100}}}},
	} {
		node := makeLeaf(entries)
		err := readAll(makePack(leafRecord(entries), node.node()))
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	good := []Entry{f("a"), f("b")}
	node := makeLeaf(good)
	must(t, 0, readAll(makePack(leafRecord(good), node.node())))
	lie := node.node()
	lie.Files++
	if err := readAll(makePack(leafRecord(good), lie)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("wrong totals: %v", err)
	}
	long := append(leafRecord(good), 0)
	if err := readAll(makePack(long, node.node())); !errors.Is(err, ErrCorrupt) {
		t.Errorf("trailing byte: %v", err)
	}
}

// TestMisplacedName has a name in the wrong slot of a branch.
func TestMisplacedName(t *testing.T) {
	t.Parallel()
	s := store{}
	w := s.writer(t, "one")
	var entries []*Entry
	for _, e := range wide(100).children(".") {
		entries = append(entries, &e)
	}
	p, err := makePart(0, entries, w.store)
	must(t, 0, err)
	kids := *p.body.kids
	kids[0], kids[1] = kids[1], kids[0]
	p = makeBranch(0, &kids)
	must(t, 0, w.store(&p, 0))
	tr := s.finish(t, w, Entry{Kind: KindDir, Sub: p.node()}, Links{})
	if _, err := tr.Children(tr.Root().Sub); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

func FuzzLoad(f *testing.F) {
	b := smallPack(f)
	f.Add(b)
	head := len(packHeader("one", packVersion))
	at := binary.BigEndian.Uint64(b[len(b)-int(trailerSize):])
	f.Add(b[at : len(b)-int(trailerSize)])
	f.Add(b[head:at])
	f.Fuzz(func(_ *testing.T, b []byte) {
		// As it is; as a footer with a right checksum; and as records below a
		// right footer.
		_ = readAll(b)
		_ = readAll(sealFooter(packHeader("one", packVersion), b))
		h := Hash(sha256.Sum256(b))
		_ = readAll(makePack(b, Node{Root: h, Meta: h}))
	})
}

// FuzzRecord checks that everything that is accepted has exactly one encoding.
func FuzzRecord(f *testing.F) {
	for _, e := range [][]Entry{nil, small().children("dir"), wide(3).children(".")} {
		for i := range e {
			e[i].Layer = "one"
		}
		f.Add(leafRecord(e), byte(0))
	}
	f.Add(leafRecord(markedEntries()), byte(0))
	kids := new([fanOut]part)
	for i := range 3 {
		kids[i*5] = part{root: Hash{1}, totals: totals{entries: 30, files: 30}, ref: ref{"two", minHeader, minRecord}}
	}
	br := &encoder{index: func(string) uint64 { return 1 }}
	br.encodeBody(2, &body{kids: kids})
	f.Add(br.b, byte(2))
	l := &encoder{}
	l.links(smallLinks())
	f.Add(l.b, byte(0))
	table := []string{"one", "two"}
	index := func(layer string) uint64 {
		if layer == "one" {
			return 0
		}
		return 1
	}
	f.Fuzz(func(t *testing.T, b []byte, level byte) {
		dec := func() *decoder { return &decoder{b: b, layers: table, start: minHeader, end: 1 << 20} }
		enc := &encoder{index: index}
		if body, err := dec().decodeBody(int(level)); err == nil {
			enc.encodeBody(int(level), body)
			if !bytes.Equal(enc.b, b) {
				t.Errorf("%x was read and written as %x", b, enc.b)
			}
		}
		enc.b = nil
		if l, err := dec().links(); err == nil {
			enc.links(l)
			if !bytes.Equal(enc.b, b) {
				t.Errorf("%x was read and written as %x", b, enc.b)
			}
		}
	})
}

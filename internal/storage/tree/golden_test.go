package tree

import (
	"flag"
	"os"
	"testing"
)

// The roots of three trees in version 1 of the identity.
const (
	goldenEmptyRoot = "55d78b2a978496e5a3a886eb163393fa16408df4ae0626c57fa5135688b47536"
	goldenEmptyMeta = "2f20879e8c7070480a7d727f1acc3036833d59ee7021ad0694681041aea4341a"
	goldenSmallRoot = "fd89938ce22f74d561bdc4e050071d722e516f83796af5169b6215f699656be0"
	goldenSmallMeta = "260d4efbc617a094b07938febe4db61799cb357a57a50ac6f4af1bf5de2ccf94"
	goldenWideRoot  = "fb4477e06ff3ec7fac71db4ba4909d2410a2d73b8e05cd80d7517cb09c4d4e61"
	goldenWideMeta  = "1efb06062f0e4b72d7bb8c52efc44b59e36463e26a2a00f840ce2b0c65bacd1d"
)

var update = flag.Bool("update", false, "write testdata again; only before a version is released")

// TestStoredPack reads packs of each version that a program wrote.
func TestStoredPack(t *testing.T) {
	t.Parallel()
	if *update { // only the present version: the others were written by their programs
		s := store{}
		w := s.writer(t, "one")
		s.finish(t, w, small().build(t, w), smallLinks())
		must(t, 0, os.WriteFile("testdata/v2.pack", s["one"].b, 0o644))
	}
	for _, name := range []string{"testdata/v1.pack", "testdata/v2.pack"} {
		b, err := os.ReadFile(name)
		m, err := Load(onePack(must(t, b, err)), "one")
		tr, _ := must(t, m, err).Area("workspace")
		check(t, tr, small(), smallLinks())
	}
}

// TestDigestsOfVersionOne: large files in a pack of version 1 have plain digests,
// and say so when their entries are written again.
func TestDigestsOfVersionOne(t *testing.T) {
	t.Parallel()
	large := Entry{Name: "large", Kind: KindFile, Mode: 0o644, Size: LargeFile + 1, Digest: Hash{1}}
	e := &encoder{index: func(string) uint64 { return 0 }}
	e.entry(&large)
	read := func(b []byte, version uint32) Entry {
		d := &decoder{b: b, version: version, layers: []string{"one"}}
		got := d.entry()
		if err := d.done(); err != nil {
			t.Fatal(err)
		}
		return got
	}
	old := read(e.b, 1)
	if !old.PlainDigest || read(e.b, 2).PlainDigest {
		t.Error("the version of a digest is not that of its pack")
	}
	again := &encoder{index: func(string) uint64 { return 0 }}
	again.entry(&old)
	if got := read(again.b, 2); !got.PlainDigest || got.Digest != large.Digest {
		t.Errorf("written again: %+v", got)
	}
	d := &decoder{b: again.b, version: 1, layers: []string{"one"}}
	if d.entry(); d.err == nil {
		t.Error("a mark of version 2 in a pack of version 1")
	}
	s := store{}
	build := func(layer string, x Entry) *Tree {
		w := s.writer(t, layer)
		dir := w.NewDir()
		dir.Put(x)
		n, err := dir.Node()
		return s.finish(t, w, Entry{Kind: KindDir, Mode: 0o755, Sub: must(t, n, err)}, Links{})
	}
	now := large
	now.Digest = Hash{2}
	a, b := build("one", old), build("two", now)
	for same, want := range map[bool]int{true: 0, false: 1} {
		asked := 0
		changes, err := Diff(a, b, DiffOptions{SameBytes: func(string, Entry, Entry) (bool, error) { asked++; return same, nil }})
		if err != nil || len(changes) != want || asked != 1 {
			t.Errorf("the same bytes: %v: %d changes, asked %d times: %v", same, len(changes), asked, err)
		}
	}
}

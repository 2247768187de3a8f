package apply

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

// largeTree is a tree with one large file. Its digest is of version 1 if plain.
func largeTree(t *testing.T, data []byte, plain bool) *tree.Tree {
	t.Helper()
	e := tree.Entry{Name: "big", Kind: tree.KindFile, Mode: 0o644, Size: int64(len(data)), Digest: sha256.Sum256(data), PlainDigest: plain}
	if !plain {
		h := tree.NewContent()
		h.Reset(e.Size, nil)
		_, err := h.Write(data)
		check(t, err)
		e.Digest, _, err = h.Sum(nil)
		check(t, err)
	}
	var buf bytes.Buffer
	w, err := tree.NewWriter(&buf, "layer", packs{})
	check(t, err)
	d := w.NewDir()
	d.Put(e)
	node, err := d.Node()
	check(t, err)
	root := dir().entry("")
	root.Sub = node
	check(t, w.SetArea("workspace", root, tree.Links{}))
	_, err = w.Close()
	check(t, err)
	loaded, err := tree.Load(packs{"layer": buf.Bytes()}, "layer")
	check(t, err)
	area, _ := loaded.Area("workspace")
	return area
}

// TestOldStates: digests of different versions cannot be compared, so the bytes
// are.
func TestOldStates(t *testing.T) {
	t.Parallel()
	one, two := bytes.Repeat([]byte("1"), tree.LargeFile+1), bytes.Repeat([]byte("2"), tree.LargeFile+1)
	files := t.TempDir()
	for _, c := range []struct {
		name               string
		base, theirs, ours []byte
		plain              [3]bool // which of them have digests of version 1
		want               string
	}{
		{"old base", one, one, one, [3]bool{true, false, true}, ""},
		{"old base, changed", one, two, one, [3]bool{true, false, true}, "op"},
		{"old ours has it already", one, two, two, [3]bool{false, false, true}, "already"},
		{"old ours is untouched", one, two, one, [3]bool{false, false, true}, "op"},
		{"old theirs", two, one, one, [3]bool{false, true, false}, "already"},
		{"changed on both sides", one, two, slices.Concat(one[:5], two[5:]), [3]bool{true, false, true}, "conflict"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			base, theirs, ours := largeTree(t, c.base, c.plain[0]), largeTree(t, c.theirs, c.plain[1]), largeTree(t, c.ours, c.plain[2])
			opt := ThreeWayOptions{Open: func(side Side, path string, _ tree.Entry) (*os.File, error) {
				f, err := os.Create(filepath.Join(files, c.name+string(rune('0'+side))+path))
				if err == nil {
					_, err = f.Write([][]byte{c.base, c.theirs, c.ours}[side])
				}
				return f, err
			}}
			ops, already, conflicts, _, err := ThreeWay(t.Context(), base, theirs, Lookup(ours), opt)
			check(t, err)
			got := ""
			switch {
			case len(conflicts) > 0:
				got = "conflict"
			case len(ops) > 0:
				got = "op"
			case len(already) > 0:
				got = "already"
			}
			if got != c.want {
				t.Errorf("%q, want %q: %v %v %v", got, c.want, ops, already, conflicts)
			}
		})
	}
	ops, _, err := Part(t.Context(), largeTree(t, one, true), largeTree(t, one, false), ThreeWayOptions{
		Open: func(Side, string, tree.Entry) (*os.File, error) {
			name := filepath.Join(files, "part")
			check(t, os.WriteFile(name, one, 0o600))
			return os.Open(name)
		},
	})
	if err != nil || len(ops) > 0 {
		t.Errorf("a part of nothing: %v, %v", ops, err)
	}
}

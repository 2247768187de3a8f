package archive_test

import (
	"bytes"
	"io"
	"runtime"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/archive"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// TestDeepTree: an archive of directories in one another can be written and read,
// with memory that follows their number.
func TestDeepTree(t *testing.T) {
	t.Parallel()
	const levels = 11_000
	ctx := t.Context()
	p := packs{"l": &bytes.Buffer{}}
	w, err := tree.NewWriter(p["l"], "l", p)
	check(t, err)
	e := tree.Entry{Name: "end", Kind: tree.KindFifo, Mode: 0o640}
	for i := range levels {
		d := w.NewDir()
		d.Put(e)
		node, err := d.Node()
		check(t, err)
		e = tree.Entry{Name: "d", Kind: tree.KindDir, Mode: 0o750, MTime: fsx.Time{Sec: int64(i)}, Sub: node}
	}
	e.Name = ""
	check(t, w.SetArea("workspace", e, tree.Links{}))
	_, err = w.Close()
	check(t, err)
	m, err := tree.Load(p, "l")
	check(t, err)
	area, _ := m.Area("workspace")

	r, pipe := io.Pipe()
	go func() { _ = pipe.CloseWithError(archive.Write(ctx, pipe, area, nil, archive.Options{})) }()
	outer := openRoot(t, emptyDir(t))
	defer outer.Close()
	check(t, outer.Mkdir("in", 0o700))
	dst, err := outer.OpenDir("in")
	check(t, err)
	defer dst.Close()
	owners, err := archive.Extract(ctx, r, dst, archive.ExtractOptions{})
	check(t, err)
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	if mem.HeapAlloc > 64<<20 {
		t.Errorf("%d MiB in use", mem.HeapAlloc>>20)
	}
	if _, ok := owners.Of("d/d"); !ok {
		t.Error("an owner is missing")
	}
	left := levels
	check(t, fsx.Walk(ctx, dst, fsx.Visitor{Enter: func(at *fsx.Step) (bool, error) {
		left--
		switch at.Name {
		case "d":
			if at.Info.Mode != 0o750 || at.Info.MTime.Sec != int64(left)-1 {
				t.Errorf("level %d: mode %o, time %v", left, at.Info.Mode, at.Info.MTime)
			}
		case "end":
			if left != 0 {
				t.Errorf("%d levels are missing", left)
			}
		}
		return true, nil
	}}))
}

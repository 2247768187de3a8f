package workspace

import (
	"context"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// tmpDir is the directory of a generation that its cell sees as /tmp. No state has it.
const tmpDir = "tmp"

// CopyTmp copies the cell's /tmp to a new directory in to. Nothing may write to it
// meanwhile, as for Capture.
func (w *Work) CopyTmp(ctx context.Context, to *fsx.Dir) error {
	src, err := w.p.dir.OpenDir(tmpDir)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := plainDir(to, tmpDir)
	if err != nil {
		return err
	}
	defer dst.Close()
	return w.s.copyDir(ctx, src, dst, w.s.plainAttrs())
}

// FillTmp fills the empty /tmp of a new generation with what CopyTmp has copied.
func (w *Work) FillTmp(ctx context.Context, from *fsx.Dir) error {
	src, err := from.OpenDir(tmpDir)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := w.p.dir.OpenDir(tmpDir)
	if err != nil {
		return err
	}
	defer dst.Close()
	return w.s.copyDir(ctx, src, dst, w.s.plainAttrs())
}

// CopyDir copies a directory that is no area to an empty one.
func (s *Store) CopyDir(ctx context.Context, from, to *fsx.Dir) error {
	return s.copyDir(ctx, from, to, s.plainAttrs())
}

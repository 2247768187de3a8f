package workspace

import (
	"context"
	"errors"
	"os"

	"github.com/forkcell/forkcell/internal/fsx"
)

// Usage is the disk space that a generation takes now, while commands work in
// it: what was changed (overlay), the whole copy (clone), or the home and the
// real directory (delta). It is a look at files that come and go, no more.
func (w *Work) Usage(ctx context.Context) (int64, error) {
	total, err := diskUsage(ctx, w.p.dir)
	if err != nil || w.c.Backend != BackendDelta {
		return total, err
	}
	live, err := fsx.OpenRoot(w.c.Live)
	if err != nil {
		return total, err
	}
	defer live.Close()
	more, err := diskUsage(ctx, live)
	return total + more, err
}

// diskUsage adds up the blocks of everything below a directory. What goes away
// while it is looked at, or may not be looked at, does not count.
func diskUsage(ctx context.Context, d *fsx.Dir) (total int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	names, err := d.Names()
	if err != nil {
		return 0, ignoreGone(err)
	}
	for _, name := range names {
		info, err := d.Lstat(name)
		if err != nil {
			if err = ignoreGone(err); err != nil {
				return total, err
			}
			continue
		}
		total += info.Blocks * 512
		if !info.IsDir() {
			continue
		}
		sub, err := d.OpenDir(name)
		if err != nil {
			if err = ignoreGone(err); err != nil {
				return total, err
			}
			continue
		}
		n, err := diskUsage(ctx, sub)
		sub.Close()
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func ignoreGone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil
	}
	return err
}

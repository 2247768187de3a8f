package workspace

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// Usage returns the disk space that a generation takes now, while commands work in
// it: the changes (overlay), the whole copy (clone), or the home and the real
// directory (delta). Files may come and go meanwhile, so it is an estimate.
func (w *Work) Usage(ctx context.Context) (int64, error) {
	total, err := diskUsage(ctx, w.p.dir)
	if err != nil {
		return total, err
	}
	live, err := w.b.liveUsage(ctx, w.c)
	return total + live, err
}

func (deltaBackend) liveUsage(ctx context.Context, c Cell) (int64, error) {
	live, err := fsx.OpenRoot(c.Live)
	if err != nil {
		return 0, err
	}
	defer live.Close()
	return diskUsage(ctx, live)
}

const (
	// blockSize is the unit of Info.Blocks.
	blockSize = 512
	// inodeSize is the least that any entry counts: a file system that has no inodes
	// left is as full as one without space.
	inodeSize = 4096
)

// spaceOf returns the disk space of one entry.
func spaceOf(info fsx.Info) int64 { return max(info.Blocks*blockSize, inodeSize) }

// diskUsage adds up the space of everything below a directory, files with several
// names once. Files that disappear meanwhile or cannot be read do not count.
func diskUsage(ctx context.Context, d *fsx.Dir) (total int64, err error) {
	linked := map[inode]struct{}{}
	err = fsx.Walk(ctx, d, fsx.Visitor{
		Enter: func(at *fsx.Step) (bool, error) {
			if !at.Info.IsDir() && at.Info.Nlink > 1 {
				key := inode{at.Info.Dev, at.Info.Ino}
				if _, counted := linked[key]; counted {
					return false, nil
				}
				linked[key] = struct{}{}
			}
			total += spaceOf(at.Info)
			return true, nil
		},
		Gone: func(err error) bool { return ignoreGone(err) == nil },
	})
	return total, err
}

// usageOf returns the disk space of a path and everything below it.
func usageOf(ctx context.Context, d *fsx.Dir, rel string) (int64, error) {
	info, err := d.Lstat(rel)
	if err != nil {
		return 0, ignoreGone(err)
	}
	own := spaceOf(info)
	if !info.IsDir() {
		return own, nil
	}
	sub, err := d.OpenDir(rel)
	if err != nil {
		return own, ignoreGone(err)
	}
	defer sub.Close()
	n, err := diskUsage(ctx, sub)
	return own + n, err
}

func ignoreGone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil
	}
	return err
}

// smallFiles is the space of a layer's directory itself, of layer.json and of a
// marker.
const smallFiles = 2 * 4096

// measure sets the disk space of a layer that is about to be committed. keep lists
// the directories of areas that it keeps; objects is the space of the objects that
// were added, which counts as the workspace's.
func (sealed *Sealed) measure(ctx context.Context, dir *fsx.Dir, keep []string, objects int64) error {
	manifest, err := usageOf(ctx, dir, "manifest")
	if err != nil {
		return err
	}
	sealed.Bytes, sealed.Disk = smallFiles+manifest+objects, map[string]int64{AreaWorkspace: objects}
	area := map[string]string{}
	for name, p := range sealed.places {
		area[p.Dir] = name
	}
	for _, name := range keep {
		n, err := usageOf(ctx, dir, name)
		if err != nil {
			return err
		}
		sealed.Bytes += n
		sealed.Disk[cmp.Or(area[name], name)] += n
	}
	return nil
}

// DiskByArea returns the disk space of the layer's files, by area. A layer that an
// earlier version sealed has all of it under the workspace.
func (i Info) DiskByArea() map[string]int64 {
	out, sum := map[string]int64{}, int64(0)
	for name, a := range i.Areas {
		out[name] = a.Disk
		sum += a.Disk
	}
	if sum == 0 {
		out[AreaWorkspace] = i.Bytes
	}
	return out
}

// objectAreas returns the areas of a layer whose contents are objects.
func (s *Store) objectAreas(i Info) ([]string, error) {
	b, err := s.backend(i.Backend)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc([]string{AreaWorkspace, AreaHome}, func(area string) bool { return slices.Contains(b.areas(), area) }), nil
}

// DiskUsage returns the disk space of the home, by purpose. The space of layers
// was recorded when they were sealed; the rest is measured.
func (s *Store) DiskUsage(ctx context.Context) (map[string]int64, error) {
	names, err := s.home.Names()
	if err != nil {
		return nil, err
	}
	uses := map[string]string{
		"objects": "objects", "pending": "pending", "live": "live", "applies": "applies", "memory": "memory",
	}
	out := map[string]int64{}
	for _, name := range names {
		if name == "layers" {
			continue
		}
		n, err := usageOf(ctx, s.home, name)
		if err != nil {
			return nil, err
		}
		out[cmp.Or(uses[name], "evidence")] += n
	}
	infos, damaged, err := s.LayerInfos()
	if err != nil {
		return nil, err
	}
	for _, i := range infos {
		out["layers"] += i.Bytes
		areas, err := s.objectAreas(i)
		if err != nil {
			return nil, err
		}
		for _, area := range areas {
			// Its objects are counted as such.
			out["layers"] -= i.Areas[area].Disk
		}
	}
	if len(damaged) > 0 { // their space is not recorded
		if out["layers"], err = usageOf(ctx, s.home, "layers"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

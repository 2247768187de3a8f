package workspace

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// SweepReport lists what was removed, or would be.
type SweepReport struct {
	Layers   []string
	Pending  []string
	Journals []string
	Live     []string
	Objects  int
	// Bytes is the disk space of what was removed.
	Bytes int64

	// trash lists renamed directories that wait to be deleted.
	trash []string
}

// Sweep removes what is not needed: layers that keep does not want and that are
// below no wanted state, pending operations and journals of applies and switches
// that are not in use, and objects that no remaining state has. The caller makes
// sure that nothing is made in the home meanwhile. Sweep only renames directories,
// so that large ones take no longer: Empty deletes them.
func (s *Store) Sweep(ctx context.Context, keep, inUse func(id string) bool, dryRun bool) (SweepReport, error) {
	sw := &sweeper{s: s, ctx: ctx, dry: dryRun}
	err := sw.layers(keep)
	if err == nil {
		err = sw.objects()
	}
	if err == nil {
		err = sw.pending(inUse)
	}
	if err == nil {
		err = sw.journals(inUse)
	}
	if err != nil {
		return sw.report, fmt.Errorf("sweep: %w", err)
	}
	return sw.report, nil
}

type sweeper struct {
	s      *Store
	ctx    context.Context
	dry    bool
	kept   []string // layers that stay
	report SweepReport
}

func (sw *sweeper) layers(wanted func(string) bool) error {
	names, err := sw.s.listDir("layers")
	if err != nil {
		return err
	}
	keep := map[string]struct{}{}
	for _, name := range names {
		if !wanted(name) {
			continue
		}
		keep[name] = struct{}{}
		chain, err := sw.s.Chain(name)
		if err != nil {
			// The layers below it are unknown, so nothing can be removed.
			return fmt.Errorf("a layer that is needed cannot be read: %w", err)
		}
		for _, l := range chain {
			keep[l] = struct{}{}
		}
	}
	for _, name := range names {
		if _, ok := keep[name]; ok {
			sw.kept = append(sw.kept, name)
			continue
		}
		if err := sw.remove("layers", name, &sw.report.Layers); err != nil {
			return err
		}
	}
	return nil
}

// remove renames one directory away and counts its contents.
func (sw *sweeper) remove(where, name string, list *[]string) error {
	if err := sw.ctx.Err(); err != nil {
		return err
	}
	rel := where + "/" + name
	*list = append(*list, name)
	if sw.dry {
		size, err := usageOf(sw.ctx, sw.s.home, rel)
		sw.report.Bytes += size
		return err
	}
	if where == "layers" {
		sw.s.packs.remove(name)
		sw.s.mu.Lock()
		delete(sw.s.infos, name)
		sw.s.mu.Unlock()
	}
	if where == "pending" && strings.HasPrefix(name, trashPrefix) {
		sw.report.trash = append(sw.report.trash, rel)
		return nil
	}
	to, err := sw.s.setAside(rel, where+"_"+name)
	if to != "" {
		sw.report.trash = append(sw.report.trash, to)
	}
	return err
}

// Add adds another sweep's report.
func (r *SweepReport) Add(o SweepReport) {
	r.Layers, r.Pending = append(r.Layers, o.Layers...), append(r.Pending, o.Pending...)
	r.Journals, r.Live = append(r.Journals, o.Journals...), append(r.Live, o.Live...)
	r.Objects, r.Bytes, r.trash = r.Objects+o.Objects, r.Bytes+o.Bytes, append(r.trash, o.trash...)
}

// Empty deletes what a sweep has renamed, and adds its space to the report. Others
// may make things in the home meanwhile. If it is interrupted, the next sweep
// deletes the rest.
func (s *Store) Empty(ctx context.Context, report *SweepReport) error {
	for len(report.trash) > 0 {
		rel := report.trash[0]
		size, err := usageOf(ctx, s.home, rel)
		if err == nil {
			err = s.home.RemoveAllContext(ctx, rel)
		}
		if err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
		report.Bytes += size
		report.trash = report.trash[1:]
	}
	return nil
}

func (sw *sweeper) pending(inUse func(op string) bool) error {
	names, err := sw.s.listDir("pending")
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, trashPrefix) && inUse(name) || slices.Contains(sw.report.trash, "pending/"+name) {
			continue
		}
		if err := sw.remove("pending", name, &sw.report.Pending); err != nil {
			return err
		}
	}
	return nil
}

// journals removes the finished journals of applies and switches that are not in
// use, with what they displaced. It never removes a journal that did not end, or
// that holds another program's writes.
func (sw *sweeper) journals(inUse func(op string) bool) error {
	names, err := sw.s.listDir("applies")
	if err != nil {
		return err
	}
	for _, name := range names {
		if inUse(name) {
			continue
		}
		over, err := sw.s.journalOver(name)
		if err != nil {
			return err
		}
		if !over {
			continue
		}
		if err := sw.remove("applies", name, &sw.report.Journals); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) journalOver(name string) (bool, error) {
	d, err := s.home.OpenDir("applies/" + name)
	if err != nil {
		return false, err
	}
	defer d.Close()
	return apply.IsOver(d)
}

// UnendedJournals lists the applies and switches that did not end.
func (s *Store) UnendedJournals() ([]string, error) {
	names, err := s.listDir("applies")
	if err != nil {
		return nil, err
	}
	var list []string
	for _, name := range names {
		over, err := s.journalOver(name)
		if err != nil {
			return nil, err
		}
		if !over {
			list = append(list, name)
		}
	}
	return list, nil
}

// SweepLive removes the live directories of removed cells.
func (s *Store) SweepLive(ctx context.Context, keep func(cellID string) bool, dryRun bool) (SweepReport, error) {
	r, removed, err := s.sweepDir(ctx, "live", keep, dryRun)
	r.Live = removed
	return r, err
}

// SweepDir removes what is in a directory of the home, except what is to be kept. It is
// for directories of other packages.
func (s *Store) SweepDir(ctx context.Context, dir string, keep func(name string) bool, dryRun bool) (SweepReport, error) {
	r, _, err := s.sweepDir(ctx, dir, keep, dryRun)
	return r, err
}

func (s *Store) sweepDir(ctx context.Context, dir string, keep func(name string) bool, dryRun bool) (r SweepReport, removed []string, err error) {
	sw := &sweeper{s: s, ctx: ctx, dry: dryRun}
	names, err := s.listDir(dir)
	for _, name := range names {
		if err == nil && !keep(name) {
			err = sw.remove(dir, name, &removed)
		}
	}
	if err != nil {
		return sw.report, removed, fmt.Errorf("sweep: %w", err)
	}
	return sw.report, removed, nil
}

// objects removes objects that no remaining state has.
func (sw *sweeper) objects() error {
	dirs, err := sw.s.listDir("objects")
	if err != nil || len(dirs) == 0 {
		return err
	}
	used, err := sw.usedObjects()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := sw.ctx.Err(); err != nil {
			return err
		}
		if strings.HasPrefix(dir, objectTemp) {
			if err := sw.removeObject("objects/" + dir); err != nil {
				return err
			}
			continue
		}
		names, err := sw.s.listDir("objects/" + dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			digest, err := tree.ParseHash(name)
			if _, ok := used[digest]; ok && err == nil {
				continue
			}
			if err := sw.removeObject("objects/" + dir + "/" + name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (sw *sweeper) removeObject(rel string) error {
	info, err := sw.s.home.Lstat(rel)
	if err != nil {
		return err
	}
	sw.report.Objects++
	sw.report.Bytes += spaceOf(info)
	if sw.dry {
		return nil
	}
	return sw.s.home.RemoveAll(rel)
}

// usedObjects returns the digests of all objects of the remaining states.
// Directories that states share are read once.
func (sw *sweeper) usedObjects() (map[tree.Hash]struct{}, error) {
	used, seen := map[tree.Hash]struct{}{}, map[tree.Hash]struct{}{}
	for _, layer := range sw.kept {
		info, err := sw.s.Info(layer)
		if err != nil {
			return nil, err
		}
		areas, err := sw.s.objectAreas(info)
		if err != nil {
			return nil, err
		}
		for _, area := range areas {
			t, err := sw.s.area(layer, area)
			if err != nil {
				return nil, err
			}
			if err := markObjects(t, t.Root().Sub, used, seen); err != nil {
				return nil, err
			}
		}
	}
	return used, nil
}

func markObjects(t *tree.Tree, n tree.Node, used, seen map[tree.Hash]struct{}) error {
	for left := []tree.Node{n}; len(left) > 0; {
		n := left[len(left)-1]
		left = left[:len(left)-1]
		if _, ok := seen[n.Root]; ok {
			continue
		}
		seen[n.Root] = struct{}{}
		children, err := t.Children(n)
		if err != nil {
			return err
		}
		for _, e := range children {
			switch e.Kind {
			case tree.KindDir:
				left = append(left, e.Sub)
			case tree.KindFile:
				used[e.Digest] = struct{}{}
			case tree.KindSymlink, tree.KindFifo, tree.KindSocket:
			}
		}
	}
	return nil
}

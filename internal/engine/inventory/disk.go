package inventory

import (
	"context"
	"errors"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"

	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// Disk returns the disk space of a cell, or of all cells and the home. It uses the
// sizes recorded when the layers were sealed.
func (inv *Inventory) Disk(ctx context.Context, cell string) (*api.DiskResult, error) {
	res := &api.DiskResult{Cells: []api.CellDisk{}}
	if cell != "" {
		if _, err := inv.FindAny(cell); err != nil {
			return nil, err
		}
	}
	if inv.Store == nil {
		return res, nil
	}
	cells, layers, kept, err := inv.layersByCell()
	if err != nil {
		return nil, err
	}
	users := map[string]int{}
	for _, set := range layers {
		for l := range set {
			users[l]++
		}
	}
	for i, c := range cells {
		if cell != "" && c.Name != cell {
			continue
		}
		d, err := inv.cellDisk(c.LastName, layers[i], users)
		if err != nil {
			return nil, err
		}
		d.Removed = c.Name == ""
		if kept[i] > 0 {
			d.Areas[areaMemory] = kept[i]
			d.OwnBytes += kept[i]
			d.TotalBytes += kept[i]
		}
		res.Cells = append(res.Cells, d)
		res.TotalBytes += d.TotalBytes
	}
	if cell != "" {
		return res, nil
	}
	if res.Home, err = inv.Workspace.DiskUsage(ctx); err != nil {
		return nil, err
	}
	res.TotalBytes = 0
	for _, n := range res.Home {
		res.TotalBytes += n
	}
	return res, nil
}

// areaMemory is the saved memory of processes among the areas of a cell.
const areaMemory = "memory"

// layersByCell lists the cells, and for each the layers that its states need and the size
// of the memory that it keeps.
func (inv *Inventory) layersByCell() (cells []store.Cell, layers []map[string]bool, kept []int64, err error) {
	err = inv.Store.View(func(tx *store.Tx) error {
		if cells, err = tx.Cells(false); err != nil {
			return err
		}
		removed, err := inv.RemovedCells(tx)
		if err != nil {
			return err
		}
		cells = append(cells, removed...)
		for _, c := range cells {
			states, err := tx.Checkpoints(c.ID)
			if err != nil {
				return err
			}
			head, err := tx.Checkpoint(c.Head)
			if err != nil {
				return err
			}
			set := map[string]bool{}
			memory := inv.PausedBytes(c)
			for _, at := range states {
				if !at.Freed {
					memory += at.MemoryBytes
				}
			}
			kept = append(kept, memory)
			for _, at := range append(states, head) {
				if at.Freed {
					continue
				}
				chain, err := inv.Workspace.Chain(at.Layer)
				if err != nil && !errors.Is(err, workspace.ErrNoLayer) {
					return home.LayerError(at, err)
				}
				for _, l := range chain {
					set[l] = true
				}
			}
			layers = append(layers, set)
		}
		return nil
	})
	return cells, layers, kept, err
}

func (inv *Inventory) cellDisk(name string, layers map[string]bool, users map[string]int) (api.CellDisk, error) {
	d := api.CellDisk{Cell: name, Areas: map[string]int64{}}
	caches, err := inv.cacheLayers(layers)
	if err != nil {
		return d, err
	}
	for l := range layers {
		info, err := inv.Workspace.Info(l)
		if errors.Is(err, workspace.ErrNoLayer) {
			continue
		}
		if err != nil {
			return d, err
		}
		if users[l] > 1 {
			d.SharedBytes += info.Bytes
		} else {
			d.OwnBytes += info.Bytes
		}
		for area, n := range info.DiskByArea() {
			if caches[l] {
				area = home.AreaCache
			}
			d.Areas[area] += n
		}
	}
	d.TotalBytes = d.OwnBytes + d.SharedBytes
	return d, nil
}

// cacheLayers returns those layers of a cell that belong to the shared cache under
// its caches.
func (inv *Inventory) cacheLayers(layers map[string]bool) (map[string]bool, error) {
	caches := map[string]bool{}
	for l := range layers {
		info, err := inv.Workspace.Info(l)
		if errors.Is(err, workspace.ErrNoLayer) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, b := range info.Bases() {
			chain, err := inv.Workspace.Chain(b.Layer)
			if err != nil && !errors.Is(err, workspace.ErrNoLayer) {
				return nil, err
			}
			for _, l := range chain {
				caches[l] = true
			}
		}
	}
	return caches, nil
}

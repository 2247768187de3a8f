package home

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// CachePath is where the area of caches is in a cell.
const CachePath = "/cache"

// AreaTarget returns the path of an area in the cell; "" is the workspace.
func AreaTarget(area string) string {
	switch {
	case area == workspace.AreaWorkspace:
		return ""
	case area == workspace.AreaHome:
		return CellHome
	case area == AreaCache:
		return CachePath
	}
	_, target, _ := strings.Cut(area, ":")
	return target
}

// AreasBetween lists the areas that either of two states has, the workspace
// first.
func AreasBetween(a, b store.Checkpoint, all bool) []string {
	if !all {
		return []string{workspace.AreaWorkspace}
	}
	names := map[string]bool{}
	for _, c := range []store.Checkpoint{a, b} {
		for name := range c.Areas {
			names[name] = true
		}
	}
	delete(names, workspace.AreaWorkspace)
	return append([]string{workspace.AreaWorkspace}, slices.Sorted(maps.Keys(names))...)
}

// AreaOf finds the area that a path of a diff is in, and the path there.
func AreaOf(areas []string, p string) (area, rel string, err error) {
	if !path.IsAbs(p) {
		return workspace.AreaWorkspace, p, nil
	}
	best := ""
	for _, a := range areas {
		if t := AreaTarget(a); t != "" && fsx.Within(p, t) && len(t) > len(AreaTarget(best)) {
			best = a
		}
	}
	if best == "" {
		return "", "", fmt.Errorf("no area holds %s", quote.Path(p))
	}
	return best, strings.TrimPrefix(strings.TrimPrefix(p, AreaTarget(best)), "/"), nil
}

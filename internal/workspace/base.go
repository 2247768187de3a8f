package workspace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/tree"
)

// Base is a sealed state whose workspace an area stands on, as it would on a
// directory of the host. Unlike one it never changes, and its files are the
// cell's own: they have no other owner, and keep nothing from it.
type Base struct {
	// Layer is the state's layer. "" is none: the area stands on nothing.
	Layer string `json:"layer,omitempty"`
	// Label is what the caller knows the state by. It is kept with the area.
	Label string `json:"label,omitempty"`
}

// emptyLower begins the name of what is below an area that stands on nothing, in
// the scratch directory of its generation: an overlay has to have something below.
const emptyLower = "nothing-"

// check is for what was read from a file.
func (b Base) check(area string) error {
	if b.Layer == "" {
		return nil
	}
	if err := checkID("layer", b.Layer); err != nil {
		return fmt.Errorf("area %q: %w", area, err)
	}
	return nil
}

// checkBase refuses an area that cannot stand on what it shall stand on.
func (a Area) checkBase(b Backend) error {
	switch {
	case a.Host != "" && a.Base != Base{}:
		return fmt.Errorf("area %q: it stands on a directory of the host and on a state", a.Name)
	case a.Host == "" && b != BackendOverlay:
		return fmt.Errorf("area %s with backend %s: %w", a.Name, b, ErrNoBase)
	case a.Host == "" && (a.System || a.Bare):
		return fmt.Errorf("area %q: a sealed state is no part of the host's system", a.Name)
	}
	return a.Base.check(a.Name)
}

// Bases are the sealed states that the areas of a state stand on.
func (i Info) Bases() []Base {
	var list []Base
	for _, name := range slices.Sorted(maps.Keys(i.Areas)) {
		if b := i.Areas[name].Base; b.Layer != "" {
			list = append(list, b)
		}
	}
	return list
}

// baseDirs lists the directories of a sealed state, the topmost first.
func (s *Store) baseDirs(b Base) ([]string, error) {
	if b.Layer == "" {
		return nil, nil
	}
	chain, err := s.usable(Cell{Backend: BackendOverlay}, b.Layer)
	for i, layer := range chain {
		chain[i] = path.Join(s.path, "layers", layer, AreaWorkspace)
	}
	return chain, err
}

// prepareBaseArea makes the directory of an area that stands on a sealed state.
// old is what the state of the cell has of it, or nil.
func (w *Work) prepareBaseArea(ctx context.Context, pl *placed, old *tree.Tree, _ *leftout.Rules) error {
	d, err := plainDir(w.p.dir, pl.Dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if old != nil {
		return setMeta(d, ".", old.Root(), w.s.opt.Root)
	}
	info, err := d.Lstat(".")
	if err != nil {
		return err
	}
	root := tree.Entry{Kind: tree.KindDir, Mode: info.Mode, UID: info.UID, GID: info.GID, MTime: info.MTime}
	if pl.Base.Layer != "" {
		t, err := w.s.area(pl.Base.Layer, AreaWorkspace)
		if err != nil {
			return err
		}
		root = t.Root()
	}
	roots, err := w.s.cover(ctx, pl.Name, d, root)
	if err != nil {
		return fmt.Errorf("area %s: %w", pl.Name, err)
	}
	pl.Fresh = &freshRoots{Root: roots.Root.String(), Meta: roots.Meta.String()}
	return nil
}

// Begun tells the sealed states that the areas of a generation stand on, by area,
// also when it has become a layer since. It has none if there is no such
// generation.
func (s *Store) Begun(op string) (map[string]Base, error) {
	if err := checkID("operation", op); err != nil {
		return nil, err
	}
	bases := map[string]Base{}
	for _, dir := range []string{"pending/" + op, "layers/" + layerOf(op)} {
		data, err := readSmall(s.home, dir+"/"+areasRecord)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("areas of %s: %w", op, err)
		}
		list, err := parsePlaced(data)
		if err != nil {
			return nil, fmt.Errorf("areas of %s: %w", op, err)
		}
		for _, a := range list {
			if a.Host == "" {
				bases[a.Name] = a.Base
			}
		}
		break
	}
	return bases, nil
}

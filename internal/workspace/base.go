package workspace

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
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
func (a Area) checkBase() error {
	switch {
	case a.Host != "" && a.Base != Base{}:
		return fmt.Errorf("area %q: it stands on a directory of the host and on a state", a.Name)
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

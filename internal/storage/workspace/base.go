package workspace

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
)

// Base is a sealed state whose workspace is below an area, in the place of a
// directory of the host. It never changes, and all its files belong to the cell's
// user.
type Base struct {
	// Layer is the state's layer; "" is an empty directory.
	Layer string `json:"layer,omitempty"`
	// Label is the caller's name for the state. It is recorded with the area.
	Label string `json:"label,omitempty"`
}

// check refuses a base that was read from a file and is not valid.
func (b Base) check(area string) error {
	if b.Layer == "" {
		return nil
	}
	if err := checkID("layer", b.Layer); err != nil {
		return fmt.Errorf("area %q: %w", area, err)
	}
	return nil
}

// checkBase refuses an area whose Host and Base contradict each other.
func (a Area) checkBase() error {
	switch {
	case a.Host != "" && a.Base != Base{}:
		return fmt.Errorf("area %q: it has both a directory of the host and a sealed state below it", a.Name)
	case a.Host == "" && (a.System || a.Bare):
		return fmt.Errorf("area %q: a sealed state cannot be a system area", a.Name)
	}
	if len(a.Without) > 0 && a.Base.Layer == "" {
		return fmt.Errorf("area %q: it has no sealed state to hide something of", a.Name)
	}
	return a.Base.check(a.Name)
}

// Bases returns the sealed states below the areas of a state.
func (i Info) Bases() []Base {
	var list []Base
	for _, name := range slices.Sorted(maps.Keys(i.Areas)) {
		if b := i.Areas[name].Base; b.Layer != "" {
			list = append(list, b)
		}
	}
	return list
}

// BaseStates returns the sealed states below the areas of a generation, by area, also
// when the generation has become a layer since. The map is empty if there is no
// such generation.
func (s *Store) BaseStates(op string) (map[string]Base, error) {
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

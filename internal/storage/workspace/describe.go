package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// ErrUndescribed means that a layer's lost layer.json cannot be written again.
var ErrUndescribed = errors.New("its layer.json is lost")

// Description has what the caller knows about a layer whose layer.json is lost.
type Description struct {
	Layer   string
	Backend Backend
	// Parent is the layer of the state that it was made from; "" if there is
	// none.
	Parent string
	Roots  map[string]tree.AreaRoots // as they were signed
}

// Describe writes a lost or damaged layer.json again. It finds the layers below by
// trying: the state that results, computed from its bytes, must have the given
// roots. Otherwise nothing is written, and the error is ErrUndescribed.
func (s *Store) Describe(ctx context.Context, d Description) (Info, error) {
	if err := checkID("layer", d.Layer); err != nil {
		return Info{}, err
	}
	s.packs.remove(d.Layer)
	m, err := tree.Load(s.packs, d.Layer)
	if err != nil {
		return Info{}, fmt.Errorf("%w, and its manifest cannot be read: %w", ErrUndescribed, err)
	}
	if err := d.fits(m); err != nil {
		return Info{}, err
	}
	b, err := s.backend(d.Backend)
	if err != nil {
		return Info{}, err
	}
	places, err := s.places(d, m)
	if err != nil {
		return Info{}, err
	}
	defer s.assumePlaces(d, places)()
	for _, at := range b.positions(d) {
		v := &verification{s: s, ctx: ctx, b: b, layer: d.Layer, chain: append([]string{d.Layer}, at.lower...), figures: map[string]tree.AreaRoots{}}
		for _, area := range m.Areas() {
			t, _ := m.Area(area)
			if err := v.area(area, t); err != nil {
				return Info{}, errors.Join(ctx.Err(), fmt.Errorf("%w: %w", ErrUndescribed, err))
			}
		}
		if len(v.diffs) > 0 {
			continue
		}
		info, err := s.writeDescription(ctx, d, at, places, v.figures)
		if err != nil {
			err = errors.Join(ctx.Err(), fmt.Errorf("%w: %w", ErrUndescribed, err))
		}
		return info, err
	}
	return Info{}, fmt.Errorf("%w, and its files do not make up the signed state", ErrUndescribed)
}

// fits compares the manifest with the signed roots.
func (d Description) fits(m *tree.Manifest) error {
	for _, area := range m.Areas() {
		t, _ := m.Area(area)
		root, meta := t.Roots()
		if want := d.Roots[area]; want.Root != root || want.Meta != meta {
			return fmt.Errorf("%w, and its manifest does not have the signed root of %s", ErrUndescribed, area)
		}
	}
	if len(m.Areas()) != len(d.Roots) {
		return fmt.Errorf("%w, and its manifest lacks an area", ErrUndescribed)
	}
	return nil
}

// places returns where the layer has its areas, for areas that not every state
// has: where its generation had them, else where its parent has them.
func (s *Store) places(d Description, m *tree.Manifest) (map[string]place, error) {
	dir, err := s.home.OpenDir("layers/" + d.Layer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUndescribed, err)
	}
	defer dir.Close()
	begun, err := readPlaced(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUndescribed, err)
	}
	var parent Info
	if d.Parent != "" {
		parent, _ = s.Info(d.Parent) // without it the areas are unknown
	}
	places := map[string]place{}
	for _, area := range m.Areas() {
		if area == AreaWorkspace || area == AreaHome {
			continue
		}
		if i := slices.IndexFunc(begun, func(a placedArea) bool { return a.Name == area }); i >= 0 {
			there, err := exists(dir, begun[i].Dir)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrUndescribed, err)
			}
			if places[area] = begun[i].place(); !there {
				places[area] = places[area].in("")
			}
		} else if was, ok := parent.Areas[area]; ok {
			places[area] = was.in("")
		} else {
			return nil, fmt.Errorf("%w, and with it where %s is", ErrUndescribed, area)
		}
	}
	return places, nil
}

// assumePlaces makes the store use places for the layer until undo is called.
func (s *Store) assumePlaces(d Description, places map[string]place) (undo func()) {
	info := Info{Format: layerFormat, Layer: d.Layer, Backend: d.Backend, Areas: map[string]areaRecord{}}
	for area, p := range places {
		info.Areas[area] = areaRecord{place: p}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.infos[d.Layer] = info
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.infos, d.Layer)
	}
}

func (s *Store) writeDescription(ctx context.Context, d Description, at position, places map[string]place, figures map[string]tree.AreaRoots) (Info, error) {
	dir, err := s.home.OpenDir("layers/" + d.Layer)
	if err != nil {
		return Info{}, err
	}
	defer dir.Close()
	sealed := Sealed{Layer: d.Layer, Parent: d.Parent, Kind: at.kind, Areas: figures, places: places}
	var keep []string
	for _, area := range []string{AreaWorkspace, AreaHome} {
		if _, err := dir.Lstat(area); err == nil {
			keep = append(keep, area)
		} else if !errors.Is(err, os.ErrNotExist) {
			return Info{}, err
		}
	}
	for _, p := range places {
		if p.Dir != "" {
			keep = append(keep, p.Dir)
		}
	}
	if err := sealed.measure(ctx, dir, keep, 0); err != nil {
		return Info{}, err
	}
	data, err := json.MarshalIndent(s.record(sealed, d.Backend, "recovered", at.lower), "", "  ")
	if err != nil {
		return Info{}, err
	}
	if err := fsx.WriteFile(dir, "layer.json", append(data, '\n'), 0o600); err != nil {
		return Info{}, fmt.Errorf("write layer.json of %s: %w", d.Layer, err)
	}
	s.mu.Lock()
	delete(s.infos, d.Layer)
	s.mu.Unlock()
	return s.Info(d.Layer)
}

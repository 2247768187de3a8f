package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// generationMarker is the last thing that Begin makes: a pending directory without
// it was never used. It is empty, so its name alone carries the information, and
// the file system keeps names in order. It stays in the layer: if it were removed
// before the layer has its name, a crash in between would lose the generation.
const generationMarker = "generation"

const initRecord = "init.json"

// Work is a writable generation on top of a sealed state. It ends with Seal or
// Discard. After Close it can be resumed.
type Work struct {
	s     *Store
	c     Cell
	b     backend
	layer string // the state below it
	p     *pending
	chain []string     // the layers of the state below it, topmost first
	extra []placedArea // areas besides the workspace and the home
	// lowers are the directories below each area (overlay).
	lowers map[string][]string
	// standIns are what the generation shows instead of files of the state
	// (overlay).
	standIns []StandIn
	masks    []mask   // (delta)
	setID    []string // regular files of a live directory that have such a bit (delta)
}

// Begin opens a writable generation on a sealed state.
func (s *Store) Begin(ctx context.Context, c Cell, layer, op string) (*Work, error) {
	b, chain, err := s.usable(c, layer)
	if err != nil {
		return nil, err
	}
	if err := checkAreas(b, c); err != nil {
		return nil, fmt.Errorf("begin on %s: %w", layer, err)
	}
	p, err := s.newPending(op)
	if err != nil {
		return nil, err
	}
	w := &Work{s: s, c: c, b: b, layer: layer, p: p, chain: chain}
	if err := w.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("begin on %s: %w", layer, err), p.discard())
	}
	return w, nil
}

// usable checks that a state can be used by a cell. It returns the cell's backend
// and the layers of the state, the topmost first.
func (s *Store) usable(c Cell, layer string) (backend, []string, error) {
	b, err := s.backend(c.Backend)
	if err != nil {
		return nil, nil, err
	}
	info, err := s.Info(layer)
	if err != nil {
		return nil, nil, err
	}
	if info.Backend != c.Backend {
		return nil, nil, fmt.Errorf("%s: %w: it is of backend %s, the cell of %s", layer, ErrMixed, info.Backend, c.Backend)
	}
	return b, append([]string{layer}, info.Lower...), nil
}

func (w *Work) prepare(ctx context.Context) error {
	m, err := w.s.Manifest(w.layer)
	if err != nil {
		return err
	}
	if err := w.prepareExtra(ctx, m); err != nil {
		return err
	}
	for _, a := range w.mainAreas() {
		t, ok := m.Area(a.Name)
		if !ok {
			return fmt.Errorf("%w: %s has no area %s", ErrCorrupt, w.layer, a.Name)
		}
		if err := w.prepareArea(ctx, a, t); err != nil {
			return err
		}
	}
	if err := w.b.prepare(ctx, w); err != nil {
		return err
	}
	if err := w.placeStandIns(ctx, m); err != nil {
		return err
	}
	if err := w.p.dir.Mkdir("tmp", 0o1777); err != nil {
		return err
	}
	f, err := w.p.dir.Create(generationMarker, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func (w *Work) prepareArea(ctx context.Context, a placedArea, t *tree.Tree) error {
	d, err := plainDir(w.p.dir, a.Dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return w.b.fill(ctx, w, d, a, t)
}

// mainAreas returns the areas of every state that have a directory in the
// generation.
func (w *Work) mainAreas() []placedArea {
	targets := map[string]string{AreaWorkspace: w.c.MountAt, AreaHome: homeTarget}
	var list []placedArea
	for _, name := range w.b.areas() {
		list = append(list, placedArea{Name: name, Dir: name, Target: targets[name]})
	}
	return list
}

// allAreas returns all areas that have a directory in the generation.
func (w *Work) allAreas() []placedArea { return append(w.mainAreas(), w.extra...) }

// Resume finds what a crash left of a generation: a Work that can be sealed or
// discarded, or the layer that it had become, or neither.
func (s *Store) Resume(_ context.Context, c Cell, layer, op string) (*Work, *Sealed, error) {
	if err := checkID("operation", op); err != nil {
		return nil, nil, err
	}
	done, err := exists(s.home, "layers/"+layerOf(op))
	if err != nil {
		return nil, nil, fmt.Errorf("resume %s: %w", op, err)
	}
	if done {
		sealed, err := s.resumeSealed(op)
		return nil, sealed, err
	}
	p, err := s.openPending(op)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	begun, err := exists(p.dir, generationMarker)
	if err != nil {
		return nil, nil, fmt.Errorf("resume %s: %w", op, err)
	}
	if !begun {
		return nil, nil, p.discard()
	}
	b, chain, err := s.usable(c, layer)
	if err != nil {
		p.close()
		return nil, nil, err
	}
	w := &Work{s: s, c: c, b: b, layer: layer, p: p, chain: chain}
	if w.extra, err = readPlaced(p.dir); err == nil {
		err = w.readStandIns()
	}
	if err == nil {
		err = b.resume(w)
	}
	if err != nil {
		p.close()
		return nil, nil, fmt.Errorf("resume %s: %w", op, err)
	}
	return w, nil, nil
}

func (s *Store) resumeSealed(op string) (*Sealed, error) {
	info, err := s.Info(layerOf(op))
	if err != nil {
		return nil, err
	}
	if info.Op != op {
		return nil, fmt.Errorf("%w: %s was made by %s, not by %s", ErrCorrupt, info.Layer, info.Op, op)
	}
	sealed, err := info.Sealed()
	if err != nil {
		return nil, err
	}
	// The crash may have happened before the new name was durable.
	return &sealed, s.syncNames()
}

// Dir returns the host path of the generation's directory.
func (w *Work) Dir() string { return path.Join(w.s.path, "pending", w.p.op) }

// RecordInit keeps data for the caller that finds the generation after a crash of
// this program. It is not durable: it describes processes, which do not survive a
// crash of the machine.
func (w *Work) RecordInit(data []byte) error {
	if err := writeNew(w.p.dir, initRecord, data); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// InitRecord returns the data of RecordInit; nil if there is none.
func (w *Work) InitRecord() ([]byte, error) {
	data, err := readSmall(w.p.dir, initRecord)
	if data = bytes.TrimSpace(data); errors.Is(err, os.ErrNotExist) || err == nil && len(data) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	return data, nil
}

// CreateFIFO makes a FIFO in the generation's directory, beside its areas, and
// returns it with its host path. It is no part of any state.
func (w *Work) CreateFIFO(name string) (*os.File, string, error) {
	f, err := w.p.dir.CreateFIFO(name)
	return f, path.Join(w.Dir(), name), err
}

// Close releases the generation without changing it. It can be resumed.
func (w *Work) Close() { w.p.close() }

// Discard removes the generation. Changes to the live directory of a delta cell
// stay.
func (w *Work) Discard() error { return w.p.discard() }

// Mounts returns what the cell sees.
func (w *Work) Mounts() mount.Set {
	set := mount.Set{
		Binds: []mount.Bind{{Target: "/tmp", Source: path.Join(w.Dir(), "tmp"), Owned: true}},
	}
	w.b.mounts(w, &set)
	// A target inside another one has to come after it.
	slices.SortFunc(set.Binds, func(a, b mount.Bind) int { return cmp.Compare(a.Target, b.Target) })
	slices.SortFunc(set.Overlays, func(a, b mount.Overlay) int { return cmp.Compare(a.Target, b.Target) })
	return set
}

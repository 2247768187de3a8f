package workspace

import (
	"context"
	"fmt"
	"os"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Backend names a way of keeping states and generations.
type Backend string

// The backends.
const (
	BackendOverlay Backend = "overlay"
	BackendClone   Backend = "clone"
	BackendDelta   Backend = "delta"
)

// Overlays reports whether the backend layers a generation over directories of
// the host and over sealed states. The other backends copy a directory of the
// host, and cannot have a sealed state below an area.
func (b Backend) Overlays() bool { return b == BackendOverlay }

// backend does what differs between the backends. It holds nothing but the
// store: one value serves all cells.
//
// A cell begins with an import: unpackDir and receive decide where its files go.
// A generation goes through checkArea and create, then fill or fillNew for each area, prepare,
// and mounts. While it runs it may be captured, which gives a copy of it. It ends
// with seal or discard. seal, compose and drift make a sealed layer, whose place
// among the layers below it is layerOn. A sealed layer never changes: it is read
// by open, and checked by rebuild.
type backend interface {
	importer
	generations
	sealer
	layerReader
	liveDirectory
}

// importer receives the source of a new cell.
type importer interface {
	// unpackDir makes and opens the directory that a source is unpacked into.
	unpackDir(c Cell, p *pending) (*fsx.Dir, error)
	// receive sets where a scan of the source puts contents. inPlace means that
	// the source was unpacked into unpackDir.
	receive(sc *scan, p *pending, inPlace bool) error
}

// generations makes writable generations.
type generations interface {
	// checkArea refuses an area that generations cannot have.
	checkArea(a Area) error
	// fill makes an empty directory the area that the state has as t.
	fill(ctx context.Context, w *Work, d *fsx.Dir, a placedArea, t *tree.Tree) error
	// fillNew makes an empty directory an area that the state does not have, and
	// returns the roots that it has as long as nothing changes it. rules leave
	// files out of a copy.
	fillNew(ctx context.Context, d *fsx.Dir, a placedArea, rules *secretfiles.Rules) (tree.AreaRoots, error)
	// prepare makes the rest of the generation, when all areas are filled.
	prepare(ctx context.Context, w *Work) error
	// resume finds out again what mounts needs, after a crash.
	resume(w *Work) error
	// mounts adds the areas, as the cell sees them.
	mounts(w *Work, set *mount.Set)
	// capture copies what a generation holds now. Nothing writes to it meanwhile.
	capture(ctx context.Context, c *Capture, from *Work) error
}

// sealer makes sealed layers.
type sealer interface {
	// layerOn describes a layer that is made on top of the layers in chain.
	layerOn(chain []string) position
	// seal reads the areas of a generation, whose directory is dir, into the
	// manifest.
	seal(sl *sealing, dir *fsx.Dir) error
	// compose writes edits of the parent state into the manifest and the layer.
	compose(ed *editing) error
	// carry takes an area of the parent over that the generation does not change.
	carry(sl *sealing, area string, t *tree.Tree, was place) error
}

// position is the place of a layer among the others.
type position struct {
	kind  string
	lower []string // the layers that it is based on, the topmost first
}

// layerReader reads sealed layers.
type layerReader interface {
	// areas lists which of the two areas of every state have a directory in
	// layers and generations. The contents of the others are objects.
	areas() []string
	// check refuses a layer that cannot be used in this home.
	check(info Info) error
	// positions lists the positions that a layer may have whose layer.json is
	// lost, the likeliest first.
	positions(d Description) []position
	// open opens the contents of one file of a state.
	open(layer, area, path string, e tree.Entry) (*os.File, error)
	// rebuild makes an area's tree from what is on disk. t is the area as the
	// manifest has it.
	rebuild(v *verification, w *tree.Writer, area string, t *tree.Tree) (tree.Entry, tree.Links, error)
}

// liveDirectory works on the real directory of a cell. Backends whose cells have
// none embed noLiveDirectory.
type liveDirectory interface {
	drift(ctx context.Context, c Cell, chain []string, op string) (Sealed, error)
	checkSwitch(from, to string) error
	switchLive(ctx context.Context, c Cell, from, to, op string) error
	forkLive(ctx context.Context, c Cell, layer string) error
	takeBack(ctx context.Context, w *Work) ([]TakenBack, error)
	// liveUsage is the disk space of the directory.
	liveUsage(ctx context.Context, c Cell) (int64, error)
}

// backend returns the implementation of a backend. Nothing else in this package
// depends on a backend's name.
func (s *Store) backend(name Backend) (backend, error) {
	switch name {
	case BackendOverlay:
		return overlayBackend{layerDirs{s}, sharedAreas{}, noLiveDirectory{s}, s}, nil
	case BackendClone:
		return cloneBackend{layerDirs{s}, copiedAreas{s}, noLiveDirectory{s}, s}, nil
	case BackendDelta:
		return deltaBackend{copiedAreas{s}, sharedAreas{}, s}, nil
	}
	return nil, fmt.Errorf("no such backend: %q", string(name))
}

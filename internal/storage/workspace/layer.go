package workspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// layerFormat is the newest version of layer.json that this program can read.
const layerFormat = 1

// The kinds of layers.
const (
	KindBase   = "base"   // an import
	KindDiff   = "diff"   // the changes of one overlay generation
	KindFull   = "full"   // a whole clone generation
	KindDelta  = "delta"  // a manifest over contents kept by digest
	KindSquash = "squash" // a state made self-contained
)

// Sealed is the result of sealing.
type Sealed struct {
	Layer  string
	Parent string // the state it was made from; "" for an import
	Kind   string
	Areas  map[string]tree.AreaRoots
	// Bytes is the disk space that the layer takes, and that what it added to the
	// objects does: allocated blocks, not sizes.
	Bytes int64
	// Disk is the part of Bytes that the files of each area take.
	Disk map[string]int64
	// Changed counts the workspace's changed entries against the parent,
	// without those whose only change is the modification time.
	Changed int
	// SplitLinks are workspace paths that no longer share a file with the names
	// that they were hard-linked to.
	SplitLinks []string
	// LeftOut are the paths of a delta cell's directory that the state does not
	// have.
	LeftOut []LeftOut
	// Unchanged means that nothing changed: Layer is the parent's.
	Unchanged bool

	places map[string]place // of the areas that are not in every state
}

// Info is the content of a layer.json, which describes its layer.
type Info struct {
	Format  int     `json:"format"`
	Layer   string  `json:"layer"`
	Parent  string  `json:"parent"`
	Kind    string  `json:"kind"`
	Backend Backend `json:"backend"`
	Op      string  `json:"op"`
	// OverlayAttrs is "trusted" or "user": which overlay attributes the layer
	// has, and so in which kind of home it can be used.
	OverlayAttrs string `json:"overlay_attrs"`
	// Lower are the layers that this one is based on, the topmost first.
	Lower []string              `json:"lower"`
	Areas map[string]areaRecord `json:"areas"`
	Bytes int64                 `json:"bytes"`
	// Changed and SplitLinks are as in Sealed. Paths are base64: names may have
	// any byte.
	Changed    int       `json:"changed"`
	SplitLinks [][]byte  `json:"split_links"`
	CreatedAt  time.Time `json:"created_at"`
}

type areaRecord struct {
	Root  string `json:"root"`
	Meta  string `json:"meta"`
	Files int64  `json:"files"`
	Dirs  int64  `json:"dirs"`
	Bytes int64  `json:"bytes"`
	// Disk is as in Sealed. Layers of earlier versions do not have it; their own
	// Bytes is the size of their files.
	Disk int64 `json:"disk,omitempty"`
	place
}

// attrKind names the overlay attributes that this home uses.
func (s *Store) attrKind() string {
	if s.opt.Root {
		return "trusted"
	}
	return "user"
}

// Info returns the description of a layer.
func (s *Store) Info(layer string) (Info, error) {
	if err := checkID("layer", layer); err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	info, ok := s.infos[layer]
	s.mu.Unlock()
	if ok {
		return info, nil
	}
	data, err := readSmall(s.home, "layers/"+layer+"/layer.json")
	if errors.Is(err, os.ErrNotExist) {
		return Info{}, fmt.Errorf("%s: %w", layer, ErrNoLayer)
	}
	if err != nil {
		return Info{}, fmt.Errorf("read layer.json of %s: %w", layer, err)
	}
	if info, err = s.parseInfo(layer, data); err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	s.infos[layer] = info
	s.mu.Unlock()
	return info, nil
}

// parseInfo decodes and checks a layer.json, which may have been altered.
func (s *Store) parseInfo(layer string, data []byte) (Info, error) {
	var info Info
	err := json.Unmarshal(data, &info) // it fills what it can, and the format stands first
	if info.Format > layerFormat {
		return Info{}, fmt.Errorf("%s: %w: %d, known is %d", layer, ErrNewerFormat, info.Format, layerFormat)
	}
	if err != nil {
		return Info{}, fmt.Errorf("%s: %w: layer.json: %w", layer, ErrCorrupt, err)
	}
	b, err := s.backend(info.Backend)
	if info.Format < 1 || info.Layer != layer || err != nil {
		return Info{}, fmt.Errorf("%s: %w: layer.json is not this layer's", layer, ErrCorrupt)
	}
	for _, id := range info.Lower {
		if checkID("layer", id) != nil || id == layer {
			return Info{}, fmt.Errorf("%s: %w: layer.json names a wrong layer below", layer, ErrCorrupt)
		}
	}
	for name, a := range info.Areas {
		if err := a.check(name); err != nil {
			return Info{}, fmt.Errorf("%s: %w: layer.json: %w", layer, ErrCorrupt, err)
		}
	}
	if _, err := info.roots(); err != nil {
		return Info{}, err
	}
	return info, b.check(info)
}

// roots returns the recorded roots of the areas.
func (i Info) roots() (map[string]tree.AreaRoots, error) {
	out := make(map[string]tree.AreaRoots, len(i.Areas))
	for name, a := range i.Areas {
		root, err := tree.ParseHash(a.Root)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: layer.json: root of %s: %w", i.Layer, ErrCorrupt, name, err)
		}
		meta, err := tree.ParseHash(a.Meta)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: layer.json: meta root of %s: %w", i.Layer, ErrCorrupt, name, err)
		}
		out[name] = tree.AreaRoots{Root: root, Meta: meta, Files: a.Files, Dirs: a.Dirs, Bytes: a.Bytes}
	}
	return out, nil
}

// Sealed returns the result of the sealing that made the layer.
func (i Info) Sealed() (Sealed, error) {
	areas, err := i.roots()
	if err != nil {
		return Sealed{}, err
	}
	out := Sealed{
		Layer: i.Layer, Parent: i.Parent, Kind: i.Kind, Areas: areas,
		Bytes: i.Bytes, Changed: i.Changed, Disk: map[string]int64{},
	}
	for name, a := range i.Areas {
		out.Disk[name] = a.Disk
	}
	for _, p := range i.SplitLinks {
		out.SplitLinks = append(out.SplitLinks, string(p))
	}
	return out, nil
}

// record returns the description of a sealed layer. It is the reverse of
// Info.Sealed.
func (s *Store) record(sealed Sealed, b Backend, op string, lower []string) Info {
	info := Info{
		Format: layerFormat, Layer: sealed.Layer, Parent: sealed.Parent, Kind: sealed.Kind, Backend: b, Op: op,
		OverlayAttrs: s.attrKind(), Lower: slices.Clone(lower), Areas: map[string]areaRecord{},
		Bytes: sealed.Bytes, Changed: sealed.Changed, SplitLinks: [][]byte{}, CreatedAt: time.Now().UTC(),
	}
	if info.Lower == nil {
		info.Lower = []string{}
	}
	for name, a := range sealed.Areas {
		info.Areas[name] = areaRecord{
			Root: a.Root.String(), Meta: a.Meta.String(), Files: a.Files, Dirs: a.Dirs, Bytes: a.Bytes,
			Disk: sealed.Disk[name], place: sealed.places[name],
		}
	}
	for _, p := range sealed.SplitLinks {
		info.SplitLinks = append(info.SplitLinks, []byte(p))
	}
	return info
}

// Chain lists the layers that a state needs, itself first: those below it, and
// those that its areas are based on.
func (s *Store) Chain(layer string) ([]string, error) {
	info, err := s.Info(layer)
	if err != nil {
		return nil, err
	}
	chain := append([]string{layer}, info.Lower...)
	for _, base := range info.Bases() {
		below, err := s.Info(base.Layer) // which is based on no other
		if err != nil {
			return nil, err
		}
		chain = append(append(chain, base.Layer), below.Lower...)
	}
	return chain, nil
}

// Depth returns the number of layers that a state consists of.
func (s *Store) Depth(layer string) (int, error) {
	info, err := s.Info(layer)
	return 1 + len(info.Lower), err
}

// NeedsSquash reports whether a state has more layers than Options.MaxDepth.
func (s *Store) NeedsSquash(layer string) (bool, error) {
	n, err := s.Depth(layer)
	return n > s.opt.MaxDepth, err
}

// LayerInfos reads every layer.json of the home, ordered by layer. damaged has the
// layers whose layer.json cannot be read, with the reason.
func (s *Store) LayerInfos() (infos []Info, damaged map[string]error, err error) {
	names, err := s.listDir("layers")
	if err != nil {
		return nil, nil, err
	}
	damaged = map[string]error{}
	for _, name := range names {
		info, err := s.Info(name)
		if err != nil {
			damaged[name] = err
			continue
		}
		infos = append(infos, info)
	}
	return infos, damaged, nil
}

// listDir lists a directory of the home. A missing one is empty.
func (s *Store) listDir(rel string) ([]string, error) {
	d, err := s.home.OpenDir(rel)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open %s in the home: %w", rel, err)
	}
	defer d.Close()
	names, err := d.Names()
	if err != nil {
		return nil, fmt.Errorf("list %s in the home: %w", rel, err)
	}
	return names, nil
}

// commit makes a pending directory a layer. Everything in it is durable before it
// gets its final name.
func (s *Store) commit(pending *fsx.Dir, op string, info Info, keep []string) error {
	data, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return fmt.Errorf("seal %s: %w", info.Layer, err)
	}
	if err := strip(pending, keep); err != nil {
		return fmt.Errorf("seal %s: %w", info.Layer, err)
	}
	if err := writeNew(pending, "layer.json", append(data, '\n')); err != nil {
		return fmt.Errorf("seal %s: write layer.json: %w", info.Layer, err)
	}
	if err := s.step("seal.packed"); err != nil {
		return fmt.Errorf("seal %s: make durable: %w", info.Layer, err)
	}
	if err := s.syncFS(); err != nil {
		return fmt.Errorf("seal %s: make durable: %w", info.Layer, err)
	}
	if err := s.step("seal.synced"); err != nil {
		return fmt.Errorf("seal %s: rename: %w", info.Layer, err)
	}
	if err := s.ensure("layers"); err != nil {
		return err
	}
	if err := s.home.Rename("pending/"+op, s.home, "layers/"+info.Layer, unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("seal %s: rename: %w", info.Layer, err)
	}
	s.packs.recordRename(info.Layer, "layers/"+info.Layer+"/manifest")
	if err := s.step("seal.renamed"); err != nil {
		return fmt.Errorf("seal %s: sync names: %w", info.Layer, err)
	}
	return s.syncNames()
}

// strip removes from a pending directory what does not go into the layer.
func strip(pending *fsx.Dir, keep []string) error {
	names, err := pending.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == "manifest" || name == generationMarker || name == areasRecord || slices.Contains(keep, name) {
			continue
		}
		if name == AreaHome || isAreaDir(name) {
			// It is renamed first: after a crash, Resume must never seal half of
			// it.
			if err := pending.Rename(name, pending, droppedPrefix+name, 0); err != nil {
				return err
			}
			name = droppedPrefix + name
		}
		if err := pending.RemoveAll(name); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}

// syncNames makes the names in layers and pending durable.
func (s *Store) syncNames() error {
	if s.opt.unsynced {
		return nil
	}
	for _, name := range []string{"layers", "pending", "."} {
		d, err := s.home.OpenDir(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("sync %s: %w", name, err)
		}
		err = d.Sync()
		d.Close()
		if err != nil {
			return fmt.Errorf("sync %s: %w", name, err)
		}
	}
	return nil
}

// join joins a path below an area's root and a name.
func join(dir, name string) string {
	if dir == "." || dir == "" {
		return name
	}
	return dir + "/" + name
}

// isInside reports whether path is dir or below it.
func isInside(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// shortName shortens a path that is too long for a message, in its middle.
func shortName(path string) string {
	const limit, side = 512, 200
	if len(path) <= limit {
		return path
	}
	return path[:side] + "..." + path[len(path)-side:]
}

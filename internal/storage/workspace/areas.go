package workspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Area is a directory of the host, or a sealed state, that a generation may
// change without changing the original: the changes are part of the cell's state.
// A state has an area from the first generation on that changed something in it,
// and keeps it in later generations that do not use it.
//
// With the backend overlay the state has only the changes, over the directory as
// the host has it at the time. With the others it has a copy of the whole
// directory, made by the first generation.
type Area struct {
	// Name identifies the area in the state, such as "path:/var/tmp".
	Name string
	// Host is the directory on the host; "" for an area over Base.
	Host string
	// Base is the sealed state below the area, if it has no Host; its zero value
	// is an empty directory. Only overlay can have such areas.
	Base Base
	// Without are paths of Base that the area does not show. They count only for a
	// state that does not have the area: what it began without, it keeps without.
	Without []string
	// Target is the path in the cell.
	Target string
	// System and Bare are passed on to mount.Overlay. Only overlay can have such
	// areas.
	System, Bare bool
	// Rules leave files of Host out of the copy that backends without overlays
	// make; nil copies everything.
	Rules *secretfiles.Rules
}

// ErrNoSystemArea means that a backend cannot have a part of the host's system as
// an area: it would have to copy it.
var ErrNoSystemArea = errors.New("only the overlay backend can have the host's system as an area")

// ErrNoBase means that a backend cannot have an area over a sealed state: it would
// have to copy it.
var ErrNoBase = errors.New("only the overlay backend can have an area on a sealed state")

// HostDirError means that the host directory of an area cannot be used, for
// instance because it was removed.
type HostDirError struct {
	Area string
	Host string
	Err  error
}

func (e *HostDirError) Error() string {
	return fmt.Sprintf("area %s: host directory %s: %v", e.Area, e.Host, e.Err)
}

func (e *HostDirError) Unwrap() error { return e.Err }

const (
	// areasRecord lists the areas of a generation besides the two of every
	// state. Like the generation's marker it stays in the layer.
	areasRecord = "areas.json"
	// areaPrefix begins the names of those areas' directories.
	areaPrefix = "area-"
	// droppedPrefix begins the names of directories that a seal leaves out.
	droppedPrefix = "dropped-"
)

func areaDirName(n int) string { return fmt.Sprintf("%s%d", areaPrefix, n) }

func isAreaDir(name string) bool {
	n, ok := strings.CutPrefix(name, areaPrefix)
	return ok && n != "" && strings.Trim(n, "0123456789") == ""
}

// place is where a layer has an area, for areas that not every state has.
type place struct {
	// Dir is the area's directory in this layer; "" if the layer has none.
	Dir string `json:"dir,omitempty"`
	// Host and Target are those of the Area in the last generation that used
	// it.
	Host   string `json:"host,omitempty"`
	Target string `json:"target,omitempty"`
	Base   Base   `json:"base,omitzero"`
}

// in returns the same place in another layer, which has the area in dir.
func (p place) in(dir string) place {
	p.Dir = dir
	return p
}

// check refuses a place that was read from a file and is not valid.
func (p place) check(area string) error {
	if area == AreaWorkspace || area == AreaHome {
		if p != (place{}) {
			return fmt.Errorf("area %s is in the wrong place", area)
		}
		return nil
	}
	if p.Dir != "" && !isAreaDir(p.Dir) {
		return fmt.Errorf("area %q has the directory %q", area, p.Dir)
	}
	return p.Base.check(area)
}

// placedArea is an area of a generation, as recorded in areas.json.
type placedArea struct {
	Name   string `json:"name"`
	Host   string `json:"host"`
	Target string `json:"target"`
	System bool   `json:"system"`
	Bare   bool   `json:"bare,omitempty"`
	Base   Base   `json:"base,omitzero"`
	Dir    string `json:"dir"`
	// Fresh are the roots that the area began with, if the state did not have
	// it. An area that still has them does not become part of the state.
	Fresh *freshRoots `json:"fresh,omitempty"`

	without []string // the Without of a new area
}

// place returns where the area is in the layer that keeps its directory.
func (a placedArea) place() place {
	return place{Dir: a.Dir, Host: a.Host, Target: a.Target, Base: a.Base}
}

type freshRoots struct {
	Root string `json:"root"`
	Meta string `json:"meta"`
}

func (f *freshRoots) same(r tree.AreaRoots) bool {
	return f != nil && f.Root == r.Root.String() && f.Meta == r.Meta.String()
}

// checkAreas refuses areas that are not valid.
func checkAreas(b backend, c Cell) error {
	names, targets := map[string]bool{AreaWorkspace: true, AreaHome: true}, map[string]bool{}
	for _, a := range c.Areas {
		if err := b.checkArea(a); err != nil {
			return fmt.Errorf("area %s with backend %s: %w", a.Name, c.Backend, err)
		}
		if err := a.checkBase(); err != nil {
			return err
		}
		paths := []string{a.Target}
		if a.Host != "" {
			paths = append(paths, a.Host)
		}
		for _, s := range append([]string{a.Name}, paths...) {
			// They are kept in JSON, which can only hold valid UTF-8.
			if s == "" || !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
				return fmt.Errorf("area %q: %q is not valid", a.Name, s)
			}
		}
		for _, p := range paths {
			if !path.IsAbs(p) || path.Clean(p) != p {
				return fmt.Errorf("area %q: %q is not an absolute, clean path", a.Name, p)
			}
		}
		if names[a.Name] || targets[a.Target] {
			return fmt.Errorf("area %q: its name or target is there twice", a.Name)
		}
		names[a.Name], targets[a.Target] = true, true
	}
	return nil
}

// openHost opens the host directory of the area.
func (a placedArea) openHost() (*fsx.Dir, error) {
	d, err := fsx.OpenRoot(a.Host)
	if err != nil {
		return nil, &HostDirError{Area: a.Name, Host: a.Host, Err: err}
	}
	return d, nil
}

// areaDir returns the name of an area's directory in a layer; "" if the layer has
// none.
func (s *Store) areaDir(layer, area string) (string, error) {
	if area == AreaWorkspace || area == AreaHome {
		return area, nil
	}
	info, err := s.Info(layer)
	if err != nil {
		return "", err
	}
	return info.Areas[area].Dir, nil
}

// readPlaced reads the areas of a generation.
func readPlaced(dir *fsx.Dir) ([]placedArea, error) {
	data, err := readSmall(dir, areasRecord)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parsePlaced(data)
}

// parsePlaced decodes and checks an areas.json, which may have been altered.
func parsePlaced(data []byte) ([]placedArea, error) {
	var list []placedArea
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, areasRecord, err)
	}
	dirs := map[string]bool{}
	for _, a := range list {
		twice := dirs[a.Dir]
		dirs[a.Dir] = true
		if twice || !isAreaDir(a.Dir) || a.Name == "" || a.Name == AreaWorkspace || a.Name == AreaHome {
			return nil, fmt.Errorf("%w: %s: area %q has the directory %q", ErrCorrupt, areasRecord, a.Name, a.Dir)
		}
		if err := a.Base.check(a.Name); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, areasRecord, err)
		}
	}
	return list, nil
}

// writePlaced records the areas of a generation. Unlike the marker, areas.json has
// contents, which have to be durable before the marker exists.
func (w *Work) writePlaced() error {
	if len(w.extra) == 0 {
		return nil
	}
	data, err := json.MarshalIndent(w.extra, "", "  ")
	if err != nil {
		return err
	}
	if w.s.opt.unsynced {
		return writeNew(w.p.dir, areasRecord, data)
	}
	return fsx.WriteFile(w.p.dir, areasRecord, data, 0o600)
}

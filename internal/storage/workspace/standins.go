package workspace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// StandIn is a file that a cell sees at a path of its workspace, in place of the
// state's. The cell cannot change it, unless it is an index, and it is no part of the
// sealed state: there the path stays as it was, unless the cell removes a directory above
// it.
type StandIn struct {
	// Path is relative to the workspace. The directory above it is one in the state.
	Path string
	// Absent means that the cell sees nothing, and cannot make anything there.
	// Otherwise the state has a file there, and the cell sees Contents.
	Absent   bool
	Contents []byte
	// Index is set for an index of git, which the cell may change: the sealed state has
	// what the cell made of it, without the flags that Contents have.
	Index *SkippedIndex
}

// SkippedIndex says which flags skip-worktree of an index are those of a stand-in.
type SkippedIndex struct {
	// Hidden are paths of the work tree. Entries for them and below them have the flag.
	Hidden []string
	// Kept are the names of such entries whose flag is the state's own.
	Kept []string
	// Digest is the SHA-256 of the contents that the cell began with.
	Digest string
}

// ErrStandIns means that a cell of this backend cannot have stand-ins.
var ErrStandIns = errors.New("only cells of the overlay backend can show other files than they have")

const (
	// standInRecord lists the stand-ins of a generation, in its directory: a crash
	// must not make them a part of the state.
	standInRecord = "standins.json"
	// dirRecord has a line for each directory that the removal of stand-ins changes,
	// written before the change.
	dirRecord = "standins.dirs"
	// maxRecord bounds the two.
	maxRecord = 32 << 20
)

// standInEntry is a stand-in in the record. Names need not be UTF-8.
type standInEntry struct {
	Path   []byte `json:"path"`
	Absent bool   `json:"absent,omitempty"`
	// These are those of SkippedIndex, if Digest is set.
	Hidden [][]byte `json:"hidden,omitempty"`
	Kept   [][]byte `json:"kept,omitempty"`
	Digest string   `json:"digest,omitempty"`
}

func newStandInEntry(s StandIn) standInEntry {
	e := standInEntry{Path: []byte(s.Path), Absent: s.Absent}
	if s.Index != nil {
		e.Hidden, e.Kept, e.Digest = encoded(s.Index.Hidden), encoded(s.Index.Kept), s.Index.Digest
	}
	return e
}

func (e standInEntry) standIn() StandIn {
	s := StandIn{Path: string(e.Path), Absent: e.Absent}
	if e.Digest != "" {
		s.Index = &SkippedIndex{Hidden: decoded(e.Hidden), Kept: decoded(e.Kept), Digest: e.Digest}
	}
	return s
}

func encoded(names []string) [][]byte {
	list := make([][]byte, len(names))
	for i, n := range names {
		list[i] = []byte(n)
	}
	return list
}

func decoded(names [][]byte) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = string(n)
	}
	return list
}

// changedDir is a directory above stand-ins, as the cell left it.
type changedDir struct {
	Path  []byte   `json:"path"`
	Mode  uint32   `json:"mode"`
	MTime fsx.Time `json:"mtime"`
}

// placeStandIns makes the stand-ins in the upper directory of a new generation: a
// whiteout, or a file. The directories above them get the metadata that they have in
// the state, so that they count as unchanged.
func (w *Work) placeStandIns(ctx context.Context, m *tree.Manifest) error {
	if len(w.c.StandIns) == 0 {
		return nil
	}
	if !w.c.Backend.Overlays() {
		return ErrStandIns
	}
	t, ok := m.Area(AreaWorkspace)
	if !ok {
		return fmt.Errorf("%w: %s has no area %s", ErrCorrupt, w.layer, AreaWorkspace)
	}
	w.standIns = w.c.StandIns
	if err := w.recordStandIns(); err != nil {
		return err
	}
	upper, err := w.p.dir.OpenDir(AreaWorkspace)
	if err != nil {
		return err
	}
	defer upper.Close()
	p := &placing{ctx: ctx, t: t, upper: upper, owners: w.s.opt.Root, dirs: map[string]tree.Entry{".": t.Root()}}
	for _, s := range w.standIns {
		if err := p.place(s); err != nil {
			return fmt.Errorf("stand-in %q: %w", shortName(s.Path), err)
		}
	}
	return p.finish()
}

// placing makes stand-ins.
type placing struct {
	ctx    context.Context
	t      *tree.Tree
	upper  *fsx.Dir
	owners bool
	dirs   map[string]tree.Entry // directories that were made, as the state has them
}

func (p *placing) place(s StandIn) error {
	if err := fsx.CheckPath(s.Path); err != nil {
		return err
	}
	if err := p.dir(path.Dir(s.Path)); err != nil {
		return err
	}
	if s.Absent {
		return p.upper.Whiteout(s.Path)
	}
	e, ok, err := p.t.Lookup(s.Path)
	if err != nil {
		return err
	}
	if !ok || e.Kind != tree.KindFile {
		return errors.New("the state has no file there")
	}
	_, err = putFile(p.ctx, p.upper, s.Path, bytes.NewReader(s.Contents), nil, e, p.owners)
	return err
}

// dir makes a directory of the state in the upper directory.
func (p *placing) dir(rel string) error {
	if _, done := p.dirs[rel]; done {
		return nil
	}
	if err := p.dir(path.Dir(rel)); err != nil {
		return err
	}
	e, ok, err := p.t.Lookup(rel)
	if err != nil {
		return err
	}
	if !ok || e.Kind != tree.KindDir {
		return fmt.Errorf("%s is no directory of the state", shortName(rel))
	}
	p.dirs[rel] = e
	return p.upper.Mkdir(rel, 0o700)
}

// finish gives the directories their metadata, the deepest first.
func (p *placing) finish() error {
	for _, rel := range deepestFirst(p.dirs) {
		if err := setMeta(p.upper, rel, p.dirs[rel], p.owners); err != nil {
			return err
		}
	}
	return nil
}

// deepestFirst returns the paths of directories such that each one comes before
// those above it.
func deepestFirst[T any](dirs map[string]T) []string {
	return slices.SortedFunc(maps.Keys(dirs), func(a, b string) int { return cmp.Compare(depth(b), depth(a)) })
}

func depth(rel string) int {
	if rel == "." {
		return 0
	}
	return 1 + strings.Count(rel, "/")
}

// recordStandIns writes the list of stand-ins, unless it is too long to be read
// again.
func (w *Work) recordStandIns() error {
	list := make([]standInEntry, len(w.standIns))
	for i, s := range w.standIns {
		list[i] = newStandInEntry(s)
	}
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if len(data) > maxRecord {
		return fmt.Errorf("the list of %d stand-ins is too long", len(list))
	}
	return writeNew(w.p.dir, standInRecord, data)
}

// readStandIns finds the stand-ins of a generation that a crash left.
func (w *Work) readStandIns() error {
	data, err := readWithin(w.p.dir, standInRecord, maxRecord)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var list []standInEntry
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	for _, e := range list {
		w.standIns = append(w.standIns, e.standIn())
	}
	return err
}

// removeStandIns takes the stand-ins out of the generation before it is read. It
// can be called again, also after a crash.
func (w *Work) removeStandIns() error {
	if len(w.standIns) == 0 {
		return nil
	}
	upper, err := w.p.dir.OpenDir(AreaWorkspace)
	if err != nil {
		return err
	}
	defer upper.Close()
	r, err := openRemoving(w.p.dir, upper, w.s.opt.Root)
	if err != nil {
		return err
	}
	defer r.log.Close()
	for _, s := range w.standIns {
		if err := r.remove(s); err != nil {
			return fmt.Errorf("stand-in %q: %w", shortName(s.Path), err)
		}
	}
	if err := w.s.step("standins.removed"); err != nil {
		return err
	}
	if err := r.finish(); err != nil {
		return err
	}
	return errors.Join(removeIfThere(w.p.dir, newIndex), removeIfThere(w.p.dir, dirRecord), removeIfThere(w.p.dir, standInRecord))
}

// removing removes stand-ins.
type removing struct {
	dir     *fsx.Dir // of the generation
	upper   *fsx.Dir
	owners  bool
	reached map[string]bool
	dirs    map[string]changedDir // directories that change, as they were
	log     *os.File              // lists dirs
}

// openRemoving begins a removal, or goes on with one that a crash ended.
func openRemoving(dir, upper *fsx.Dir, owners bool) (*removing, error) {
	r := &removing{dir: dir, upper: upper, owners: owners, reached: map[string]bool{}, dirs: map[string]changedDir{}}
	data, err := readWithin(dir, dirRecord, maxRecord)
	if errors.Is(err, os.ErrNotExist) {
		r.log, err = dir.Create(dirRecord, 0o600)
		return r, err
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(data) {
		var e changedDir
		if json.Unmarshal(line, &e) == nil { // the crash may have cut the last one
			r.dirs[string(e.Path)] = e
		}
	}
	if r.log, err = dir.ReopenFile(dirRecord); err != nil {
		return nil, err
	}
	_, err = r.log.Seek(0, io.SeekEnd)
	return r, err
}

// note records a directory before its first change.
func (r *removing) note(rel string, info fsx.Info) error {
	if _, noted := r.dirs[rel]; noted {
		return nil
	}
	e := changedDir{Path: []byte(rel), Mode: info.Mode, MTime: info.MTime}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = r.log.Write(append([]byte("\n"), line...)) // after a line that a crash may have cut
	}
	r.dirs[rel] = e
	return err
}

// remove removes one stand-in. The cell may have removed the directory above it, and
// made another one.
func (r *removing) remove(s StandIn) error {
	dir := path.Dir(s.Path)
	there, err := r.reach(dir)
	if err != nil || !there {
		return err
	}
	info, err := r.upper.Lstat(s.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.Absent != info.IsWhiteout() || !s.Absent && info.Type != unix.S_IFREG {
		return nil
	}
	above, err := r.upper.Lstat(dir)
	if err != nil {
		return err
	}
	if s.Index != nil {
		shown, unchanged, err := r.shown(s, info)
		if err != nil || !unchanged && shown == nil {
			return err
		}
		if !unchanged {
			return r.replace(s.Path, dir, info, above, shown)
		}
	}
	if err := r.note(dir, above); err != nil {
		return err
	}
	return r.upper.Remove(s.Path)
}

// reach makes a directory writable for the caller, with those above it, and reports
// whether it is there.
func (r *removing) reach(rel string) (bool, error) {
	if r.reached[rel] {
		return true, nil
	}
	if rel != "." {
		if there, err := r.reach(path.Dir(rel)); err != nil || !there {
			return false, err
		}
	}
	info, err := r.upper.Lstat(rel)
	if errors.Is(err, os.ErrNotExist) || err == nil && !info.IsDir() {
		return false, nil
	}
	if err == nil && info.Mode&0o700 != 0o700 {
		if err = r.note(rel, info); err == nil {
			err = r.upper.Chmod(rel, info.Mode|0o700)
		}
	}
	r.reached[rel] = err == nil
	return err == nil, err
}

// finish gives the directories back the modes and times that they had, the deepest
// first.
func (r *removing) finish() error {
	for _, rel := range deepestFirst(r.dirs) {
		was := r.dirs[rel]
		if was.Mode&0o700 != 0o700 {
			if err := r.upper.Chmod(rel, was.Mode); err != nil {
				return err
			}
		}
		if err := r.upper.Chtimes(rel, was.MTime); err != nil {
			return err
		}
	}
	return nil
}

// mountStandIns adds what keeps the stand-ins as they are.
func (w *Work) mountStandIns(set *mount.Set, target, upper string) {
	absent := mount.Absence{Target: target, Upper: upper}
	for _, s := range w.standIns {
		switch {
		case s.Index != nil: // the cell may write it
		case s.Absent:
			absent.Paths = append(absent.Paths, s.Path)
		default:
			set.Fixed = append(set.Fixed, path.Join(target, s.Path))
		}
	}
	if len(absent.Paths) > 0 {
		set.Absent = append(set.Absent, absent)
	}
}

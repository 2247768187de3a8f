// Package moments keeps the memory of cells in a home: each image in a directory of its
// own, which only its owner may enter.
//
// An image has the processes of a cell as a driver saved them, and those files of the
// same moment that no state of the cell has. Memory holds secrets: others may not read
// the files of an image, and nothing else in the home refers to its contents.
//
// The package knows directories and digests. It must not know cells, drivers, policies
// or the store.
package moments

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// Dir is the directory of images in a home.
const Dir = "memory"

// The parts of an image.
const (
	// processes is the directory that a driver fills.
	processes = "processes"
	// Network and Run are what the engine must know to use the image.
	Network = "network.json"
	Run     = "run.json"
)

// ErrDamaged means that an image is not as it was when it was kept.
var ErrDamaged = errors.New("the saved memory is damaged")

// Store has the images of a home.
type Store struct {
	home *fsx.Dir
	path string // of the home
}

// In returns the images of a home.
func In(home *fsx.Dir, path string) Store { return Store{home: home, path: path} }

// Image is one image.
type Image struct {
	s  Store
	id string
}

// New makes an empty image. The caller removes it, or keeps it.
func (s Store) New(id string) (Image, error) {
	m := Image{s: s, id: id}
	if err := s.home.Mkdir(Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return m, fmt.Errorf("keep memory: %w", err)
	}
	for _, dir := range []string{m.rel(), m.rel() + "/" + processes} {
		if err := s.home.Mkdir(dir, 0o700); err != nil {
			return m, errors.Join(fmt.Errorf("keep memory: %w", err), m.Remove())
		}
	}
	return m, nil
}

// rel is the image's path in the home.
func (m Image) rel() string { return Dir + "/" + m.id }

// Processes returns the host path of the directory for what a driver saves.
func (m Image) Processes() string { return path.Join(m.s.path, m.rel(), processes) }

// Open opens the directory of the image, in which the files of its moment are.
func (m Image) Open() (*fsx.Dir, error) { return m.s.home.OpenDir(m.rel()) }

// Write adds a file to an image that is not kept yet.
func (m Image) Write(name string, data []byte) error {
	return fsx.WriteFile(m.s.home, m.rel()+"/"+name, data, 0o600)
}

// Read returns a file that Write has added.
func (m Image) Read(name string) ([]byte, error) {
	dir, err := m.Open()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return readSmall(dir, name)
}

// Keep makes the image durable under another id, and returns its digest.
func (m Image) Keep(ctx context.Context, id string) (kept Image, digest string, err error) {
	dir, err := m.Open()
	if err != nil {
		return m, "", err
	}
	defer dir.Close()
	list, err := listing(ctx, dir, maxSmall)
	if err == nil {
		err = fsx.WriteFile(dir, contents, list, 0o600)
	}
	if err == nil {
		err = dir.SyncFS()
	}
	if err == nil {
		err = m.s.home.Rename(m.rel(), m.s.home, Dir+"/"+id, unix.RENAME_NOREPLACE)
	}
	if err == nil {
		err = syncDir(m.s.home, Dir)
	}
	if err != nil {
		return m, "", fmt.Errorf("keep memory: %w", err)
	}
	return Image{s: m.s, id: id}, digestOf(list), nil
}

// Verify returns ErrDamaged unless the image is the one with a digest, with every byte
// of it.
func (m Image) Verify(ctx context.Context, digest string) error {
	dir, err := m.Open()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: it is not there", ErrDamaged)
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	want, err := readSmall(dir, contents)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: it has no list of its files", ErrDamaged)
	}
	if err != nil {
		return err
	}
	if digestOf(want) != digest {
		return fmt.Errorf("%w: the list of its files was altered", ErrDamaged)
	}
	got, err := listing(ctx, dir, maxSmall)
	if err != nil {
		return err
	}
	return differ(want, got)
}

// Remove removes the image, if there is one.
func (m Image) Remove() error {
	if err := m.s.home.RemoveAll(m.rel()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove memory: %w", err)
	}
	return nil
}

// scratchSuffix follows the id of a run in the name of its scratch directory.
const scratchSuffix = ".scratch"

// Scratch makes a directory in which the runtime of a live cell may keep memory for a
// moment, and returns its host path. It belongs to the run with the id.
func (s Store) Scratch(id string) (string, error) {
	if err := s.home.Mkdir(Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("keep memory: %w", err)
	}
	rel := Dir + "/" + id + scratchSuffix
	if err := s.home.Mkdir(rel, 0o700); err != nil {
		return "", fmt.Errorf("keep memory: %w", err)
	}
	return path.Join(s.path, rel), nil
}

// pausedSuffix follows the id of a run in the name of what its cell is paused with.
const pausedSuffix = ".paused"

// PausedImage returns the id of the image that a cell is paused with, whose run has the id.
func PausedImage(id string) string { return id + pausedSuffix }

// RemoveRun removes what is left of a run: an image that was not kept, and its scratch
// directory.
func (s Store) RemoveRun(id string) error {
	return errors.Join(s.Image(id).Remove(), s.Image(id+scratchSuffix).Remove())
}

// Owner returns the run or the checkpoint that a name in Dir belongs to.
func Owner(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, scratchSuffix), pausedSuffix)
}

// ids lists the images.
func (s Store) ids() ([]string, error) {
	dir, err := s.home.OpenDir(Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Names()
}

// Image returns the image with an id, which need not exist.
func (s Store) Image(id string) Image { return Image{s: s, id: id} }

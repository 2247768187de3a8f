package workspace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// maxOpenPacks bounds the descriptors that a long-lived store holds.
const maxOpenPacks = 128

// packs opens the manifests of layers and keeps some of them open. A manifest that
// was closed is opened again when it is read.
type packs struct {
	home *fsx.Dir

	mu    sync.Mutex
	files map[string]*packFile
	open  []*packFile // oldest first
}

// packFile is the manifest of one layer, in the home or anonymous.
type packFile struct {
	owner *packs
	size  int64

	mu      sync.Mutex
	path    string // beneath the home; "" for an anonymous file, which stays open
	file    *os.File
	dropped bool // it was removed, and is not opened again
}

func newPacks(home *fsx.Dir) *packs {
	return &packs{home: home, files: map[string]*packFile{}}
}

// Pack returns the manifest of a layer for reading.
func (p *packs) Pack(layer string) (io.ReaderAt, int64, error) {
	p.mu.Lock()
	f := p.files[layer]
	p.mu.Unlock()
	if f == nil {
		if err := checkID("layer", layer); err != nil {
			return nil, 0, err
		}
		var err error
		if f, err = p.addPath(layer, "layers/"+layer+"/manifest"); err != nil {
			return nil, 0, err
		}
	}
	return f, f.size, nil
}

// addPath registers a manifest by its path beneath the home.
func (p *packs) addPath(layer, path string) (*packFile, error) {
	info, err := p.home.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", layer, ErrNoLayer)
	}
	if err != nil {
		return nil, fmt.Errorf("manifest of %s: %w", layer, err)
	}
	f := &packFile{owner: p, path: path, size: info.Size}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files[layer] = f
	return f, nil
}

// addFile registers an anonymous manifest, and takes over its file.
func (p *packs) addFile(layer string, file *os.File, size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files[layer] = &packFile{owner: p, file: file, size: size}
}

// recordRename records that a manifest has been renamed.
func (p *packs) recordRename(layer, path string) {
	p.mu.Lock()
	f := p.files[layer]
	p.mu.Unlock()
	if f != nil {
		f.mu.Lock()
		f.path = path
		f.mu.Unlock()
		if oldest := p.recordOpen(f); oldest != nil && oldest != f {
			_ = oldest.release(false)
		}
	}
}

// remove drops a manifest that was removed.
func (p *packs) remove(layer string) {
	p.mu.Lock()
	f := p.files[layer]
	delete(p.files, layer)
	p.mu.Unlock()
	if f != nil {
		_ = f.release(true)
	}
}

func (p *packs) close() error {
	p.mu.Lock()
	files := p.files
	p.files = map[string]*packFile{}
	p.open = nil
	p.mu.Unlock()
	var errs []error
	for _, f := range files {
		errs = append(errs, f.release(true))
	}
	return errors.Join(errs...)
}

// recordOpen records that one more is open, and returns one to close.
func (p *packs) recordOpen(f *packFile) *packFile {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, f)
	if len(p.open) <= maxOpenPacks {
		return nil
	}
	oldest := p.open[0]
	p.open = p.open[1:]
	return oldest
}

// release closes the file. An anonymous file is closed only if it is dropped.
func (f *packFile) release(drop bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped = f.dropped || drop
	if f.file == nil || (f.path == "" && !drop) {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// ReadAt reads the manifest, and opens it first if necessary.
func (f *packFile) ReadAt(b []byte, off int64) (int, error) {
	f.mu.Lock()
	opened := false
	if f.file == nil && f.dropped {
		f.mu.Unlock()
		return 0, &os.PathError{Op: "read", Path: f.path, Err: os.ErrNotExist}
	}
	if f.file == nil {
		file, err := f.owner.home.OpenFile(f.path)
		if err != nil {
			f.mu.Unlock()
			return 0, err
		}
		f.file, opened = file, true
	}
	n, err := f.file.ReadAt(b, off)
	f.mu.Unlock()
	if opened {
		if oldest := f.owner.recordOpen(f); oldest != nil && oldest != f {
			_ = oldest.release(false)
		}
	}
	return n, err
}

package fsx

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrMoved means that a directory which is opened again is no longer the one that
// it was.
var ErrMoved = errors.New("replaced while it was read")

// Keeper keeps directories of a tree open while they are worked on, but never
// more than a number of unused ones. Those are closed, and opened again
// when they are needed, so that a tree may be nested more deeply than a process
// may have descriptors. Its methods and those of its refs may be used by several
// goroutines at once.
type Keeper struct {
	limit int
	mu    sync.Mutex
	idle  []*Ref // open and not in use, the one used last at the end; nil: taken out
	open  map[*Ref]struct{}
}

// NewKeeper makes a Keeper that leaves at most limit unused directories open.
func NewKeeper(limit int) *Keeper {
	return &Keeper{limit: limit, open: map[*Ref]struct{}{}}
}

// Close closes every directory that the keeper opened.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for r := range k.open {
		_ = r.dir.Close()
		r.dir = nil
	}
	clear(k.open)
	k.idle = nil
}

// Ref is one directory of a tree, whether it is open at the moment or not.
type Ref struct {
	k    *Keeper
	up   *Ref // nil: the root, which stays open
	name string

	opening sync.Mutex

	// What follows is guarded by the keeper's lock.
	dir   *Dir
	users int
	place int // in idle, plus one
	// seen is set when the directory was closed by the keeper; dev and ino are
	// what it must be when it is opened again.
	seen     bool
	dev, ino uint64
}

// Root makes the ref of a directory that is open. It is not closed by the keeper.
func (k *Keeper) Root(d *Dir) *Ref { return &Ref{k: k, dir: d} }

// Child makes the ref of a directory in r. Nothing is opened yet.
func (r *Ref) Child(name string) *Ref { return &Ref{k: r.k, up: r, name: name} }

// Open returns the open directory. It stays open until Release has been called
// as often as Open, or Close.
func (r *Ref) Open() (*Dir, error) {
	if d := r.take(); d != nil {
		return d, nil
	}
	r.opening.Lock()
	defer r.opening.Unlock()
	if d := r.take(); d != nil {
		return d, nil
	}
	d, err := r.reopen()
	if err != nil {
		return nil, err
	}
	r.keep(d, 1)
	return d, nil
}

// take marks an open directory as in use; nil if it is closed.
func (r *Ref) take() *Dir {
	if r.up == nil {
		return r.dir
	}
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	if r.dir != nil {
		r.users++
		r.k.unlist(r)
	}
	return r.dir
}

func (k *Keeper) unlist(r *Ref) {
	if r.place > 0 {
		k.idle[r.place-1] = nil
		r.place = 0
	}
}

// keep takes over a directory that was just opened.
func (r *Ref) keep(d *Dir, users int) {
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	r.dir, r.users = d, users
	r.k.open[r] = struct{}{}
	if users == 0 {
		r.k.list(r)
	}
}

// list puts a ref among the idle ones and closes the oldest if they are too many.
func (k *Keeper) list(r *Ref) {
	k.idle = append(k.idle, r)
	r.place = len(k.idle)
	if len(k.idle) < 2*k.limit {
		return
	}
	kept := slices.DeleteFunc(k.idle, func(r *Ref) bool { return r == nil })
	for len(kept) > k.limit {
		kept[0].closeForNow()
		kept = kept[1:]
	}
	k.idle = append(k.idle[:0], kept...)
	for i, r := range k.idle {
		r.place = i + 1
	}
}

// closeForNow closes a directory that is opened again on its next use.
func (r *Ref) closeForNow() {
	var st unix.Stat_t
	if unix.Fstat(r.dir.fd, &st) == nil {
		r.seen, r.dev, r.ino = true, uint64(st.Dev), st.Ino //nolint:unconvert // 32-bit hosts
	}
	_ = r.dir.Close()
	r.dir, r.place = nil, 0
	delete(r.k.open, r)
}

// Release ends a use of the directory.
func (r *Ref) Release() {
	if r.up == nil {
		return
	}
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	if r.users--; r.users == 0 && r.dir != nil {
		r.k.list(r)
	}
}

// Close closes the directory for good. The one above it will be needed next: if
// it is closed it is opened again from here, which takes one call however deep it
// is.
func (r *Ref) Close() {
	if r.up == nil {
		return
	}
	r.k.mu.Lock()
	d, up := r.dir, r.up
	r.k.unlist(r)
	r.dir = nil
	delete(r.k.open, r)
	closed := up.up != nil && up.dir == nil && up.seen
	r.k.mu.Unlock()
	if d == nil {
		return
	}
	if closed {
		up.openFrom(d)
	}
	_ = d.Close()
}

// openFrom opens a directory as the parent of one that is in it. If that is not
// possible it stays closed.
func (r *Ref) openFrom(child *Dir) {
	r.opening.Lock()
	defer r.opening.Unlock()
	if r.take() != nil {
		r.Release()
		return
	}
	fd, err := openDirect(child.fd, "..", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return
	}
	d := &Dir{fd: fd, path: parentPath(child.path)}
	if r.checkSame(d) != nil {
		_ = d.Close()
		return
	}
	r.keep(d, 0)
}

// reopen opens the directory from the nearest open one above it.
func (r *Ref) reopen() (*Dir, error) {
	top, names := r.up, []string{r.name}
	from := top.take()
	for from == nil {
		names = append(names, top.name)
		top = top.up
		from = top.take()
	}
	defer top.Release()
	slices.Reverse(names)
	d, err := from.OpenDir(strings.Join(names, "/"))
	if err != nil {
		return nil, err
	}
	if err := r.checkSame(d); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// checkSame checks that a directory which was open before is still that one.
func (r *Ref) checkSame(d *Dir) error {
	r.k.mu.Lock()
	seen, dev, ino := r.seen, r.dev, r.ino
	r.k.mu.Unlock()
	if !seen {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(d.fd, &st); err != nil {
		return &fs.PathError{Op: "open", Path: d.path, Err: err}
	}
	if uint64(st.Dev) != dev || st.Ino != ino { //nolint:unconvert // 32-bit hosts
		return &fs.PathError{Op: "open", Path: d.path, Err: ErrMoved}
	}
	return nil
}

// Path is the path beneath the root; "." is the root itself.
func (r *Ref) Path() string {
	if r.up == nil {
		return "."
	}
	n := -1
	for at := r; at.up != nil; at = at.up {
		n += 1 + len(at.name)
	}
	b := make([]byte, n)
	for at := r; at.up != nil; at = at.up {
		n -= len(at.name)
		copy(b[n:], at.name)
		if n--; n >= 0 {
			b[n] = '/'
		}
	}
	return string(b)
}

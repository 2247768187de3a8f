package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
)

// The areas of every state. People see and compare the workspace; the home is the
// home directory of the cell's user. They are sealed together, and with them the
// areas of the type Area.
const (
	AreaWorkspace = "workspace"
	AreaHome      = "home"
)

// homeTarget is the home directory in the cell.
const homeTarget = "/home/sandbox"

// DefaultMaxDepth is the number of layers above which a state should be squashed:
// mounts and look-ups slow down with every layer.
const DefaultMaxDepth = 50

var (
	// ErrSourceChanged means that a file or directory kept changing while it
	// was read.
	ErrSourceChanged = errors.New("changed while it was read")
	// ErrNoLayer means that a layer is not in the home.
	ErrNoLayer = errors.New("layer is missing")
	// ErrNewerFormat means that a layer was written by a newer program.
	ErrNewerFormat = errors.New("layer has a newer format than this program knows")
	// ErrCorrupt means that a layer differs from what was sealed.
	ErrCorrupt = errors.New("layer is corrupt")
	// ErrMixed means that a layer was made for another backend, or with the
	// overlay attributes of the other kind of home.
	ErrMixed = errors.New("layer cannot be used here")
)

// UnsealableError lists what no state can hold: device nodes, and extended
// attributes that overlay file systems keep for themselves.
type UnsealableError struct {
	Problems []string
	// Refused lists the same things, for callers that remove them.
	Refused []RefusedEntry
}

func (e *UnsealableError) Error() string {
	const shown = 5
	list := e.Problems
	more := ""
	if len(list) > shown {
		more = fmt.Sprintf(", and %d more", len(list)-shown)
		list = list[:shown]
	}
	return "cannot be kept: " + strings.Join(list, ", ") + more
}

// Progress is how far a long operation has come.
type Progress struct {
	What  string // "import", "copy", "hash"
	Files int64
	Bytes int64
	Path  string
}

// ProgressImport is the What of an import.
const ProgressImport = "import"

type progressKey struct{}

// AlsoProgress returns a context whose long operations report to fn, too.
func AlsoProgress(ctx context.Context, fn func(Progress)) context.Context {
	first, _ := ctx.Value(progressKey{}).(func(Progress))
	return WithProgress(ctx, func(p Progress) {
		if first != nil {
			first(p)
		}
		fn(p)
	})
}

// WithProgress returns a context whose long operations report to fn from time to
// time, from one goroutine at a time.
func WithProgress(ctx context.Context, fn func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, fn)
}

// Options configures the use of a home. The zero value is an ordinary user's home.
type Options struct {
	// Root means that the caller is root: layers carry trusted.overlay.*
	// attributes and the true owners are on disk.
	Root bool
	// MaxDepth is the number of layers above which NeedsSquash reports true; 0
	// means DefaultMaxDepth.
	MaxDepth int

	// hook, if set, is called at every step at which a crash matters, and may
	// make it fail. Tests set it.
	hook func(step string) error
	// unsynced leaves out making things durable, which also waits for the
	// writes of other programs. Tests of other things set it.
	unsynced bool
}

// Cell describes a cell to this package.
type Cell struct {
	ID      string
	Backend Backend
	// MountAt is the absolute path of the workspace in the cell.
	MountAt string
	// Live is the host path of the real directory of a delta cell.
	Live string
	// Rules leave files out of the source; nil leaves out nothing.
	Rules *secretfiles.Rules
	// Kept are paths that stay although a rule matches them, as Import reported
	// them. They are fixed at import: if they were read from git again, a cell
	// could add a secret to the index and make it visible.
	Kept []string
	// Areas are the host's directories that a generation may change besides the
	// workspace and the home. Only Begin uses them.
	Areas []Area
	// StandIns are what a generation shows instead of files of the state. Only
	// Begin uses them.
	StandIns []StandIn
}

// Store holds the states of one home. Several goroutines may use its methods at
// once; the caller makes sure that only one of them works on a cell.
type Store struct {
	home  *fsx.Dir
	path  string
	opt   Options
	packs *packs

	contents sync.Pool // of *tree.Content

	mu    sync.Mutex
	infos map[string]Info
	scans int
	// inMemory has the layers of trees that are not stored.
	inMemory map[*tree.Tree]string
}

// Open opens the states of a home. It creates nothing: a read-only home can be
// read.
func Open(homePath string, opt Options) (*Store, error) {
	homePath, err := filepath.Abs(homePath)
	if err != nil {
		return nil, fmt.Errorf("open home: %w", err)
	}
	home, err := fsx.OpenRoot(homePath)
	if err != nil {
		return nil, fmt.Errorf("open home: %w", err)
	}
	if opt.MaxDepth == 0 {
		opt.MaxDepth = DefaultMaxDepth
	}
	return &Store{home: home, path: homePath, opt: opt, packs: newPacks(home), infos: map[string]Info{}, inMemory: map[*tree.Tree]string{}, contents: sync.Pool{New: newContent}}, nil
}

// Close releases what the store holds open.
func (s *Store) Close() error {
	return errors.Join(s.packs.close(), s.home.Close())
}

// Manifest loads the manifest of a state.
func (s *Store) Manifest(layer string) (*tree.Manifest, error) {
	if _, err := s.Info(layer); err != nil {
		return nil, err
	}
	m, err := tree.Load(s.packs, layer)
	if err != nil {
		return nil, fmt.Errorf("manifest of %s: %w", layer, err)
	}
	return m, nil
}

// area loads one area of a state.
func (s *Store) area(layer, name string) (*tree.Tree, error) {
	m, err := s.Manifest(layer)
	if err != nil {
		return nil, err
	}
	t, ok := m.Area(name)
	if !ok {
		return nil, fmt.Errorf("%w: %s has no area %s", ErrCorrupt, layer, name)
	}
	return t, nil
}

// step marks an instant at which a crash matters. Tests can make it fail.
func (s *Store) step(name string) error {
	if err := failpoint.Err(name); err != nil {
		return err
	}
	if s.opt.hook != nil {
		return s.opt.hook(name)
	}
	return nil
}

// syncFS makes everything in the home durable.
func (s *Store) syncFS() error {
	if s.opt.unsynced {
		return nil
	}
	return s.home.SyncFS()
}

// ensure makes one of the home's directories if it does not exist.
func (s *Store) ensure(name string) error {
	if err := s.home.MkdirAll(name, 0o700); err != nil {
		return fmt.Errorf("make %s in the home: %w", name, err)
	}
	return nil
}

// exists reports whether there is anything at a path.
func exists(d *fsx.Dir, rel string) (bool, error) {
	_, err := d.Lstat(rel)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// checkID refuses identifiers that could be used as paths.
func checkID(kind, id string) error {
	if id == "" || len(id) > 128 {
		return fmt.Errorf("%s id %q is not valid", kind, id)
	}
	for _, c := range []byte(id) {
		ok := c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !ok {
			return fmt.Errorf("%s id %q is not valid", kind, id)
		}
	}
	return nil
}

// LayerOf returns the id of the layer that an operation makes, so that the layer
// can be found when only the operation is known.
func LayerOf(op string) string { return layerOf(op) }

func layerOf(op string) string {
	if _, suffix, ok := strings.Cut(op, "_"); ok {
		return "lay_" + suffix
	}
	return "lay_" + op
}

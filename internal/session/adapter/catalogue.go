package adapter

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/quote"
)

//go:embed adapters/*.yaml
var embedded embed.FS

// Catalogue is the adapters that come with the program, and those of the operator.
type Catalogue struct {
	dir string
}

// NewCatalogue returns the catalogue with the operator's directory, which need not
// exist.
func NewCatalogue(dir string) Catalogue { return Catalogue{dir: dir} }

// Entry is one adapter of the catalogue.
type Entry struct {
	Adapter *Adapter
	// Text is the document as it was written.
	Text []byte
	// File is the operator's file; "" for an adapter that comes with the program.
	File string
}

// ErrUnknown means that no adapter has the name.
var ErrUnknown = errors.New("unknown agent")

// Builtin lists the names of the adapters that come with the program, sorted.
func Builtin() []string {
	list, err := embedded.ReadDir("adapters")
	if err != nil {
		panic(err) // cannot happen: the directory is embedded
	}
	var names []string
	for _, e := range list {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Names lists all names, sorted.
func (c Catalogue) Names() ([]string, error) {
	names, err := c.ownNames()
	if err != nil {
		return nil, err
	}
	names = append(names, Builtin()...)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// StateDirs returns the directories below a home in which agents keep their state. Those
// of the adapters that come with the program are hidden ones; they are left out without
// hidden, because their documents take longer to read than everything else that is asked
// about a workspace.
func (c Catalogue) StateDirs(hidden bool) (dirs []string, err error) {
	list := c.ownNames
	if hidden {
		list = c.Names
	}
	names, err := list()
	for _, name := range names {
		e, err := c.Find(name)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, e.Adapter.Paths.State...)
	}
	return dirs, err
}

// ownNames lists the names of the operator's adapters, sorted.
func (c Catalogue) ownNames() (names []string, err error) {
	list, err := os.ReadDir(c.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range list {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok && isName(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Find returns the adapter of a name. The operator's file wins. It must belong to the
// caller, and no other user may write it.
func (c Catalogue) Find(name string) (*Entry, error) {
	if !isName(name) {
		return nil, fmt.Errorf("%w %s", ErrUnknown, quote.Arg(name))
	}
	file := c.file(name)
	text, err := fsx.ReadOwn(file, 0o022, MaxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return builtin(name)
	}
	if err != nil {
		return nil, fmt.Errorf("the adapter %s: %w", quote.Path(file), err)
	}
	a, err := Parse(file, text)
	if err != nil {
		return nil, err
	}
	if a.Name != name {
		return nil, fmt.Errorf("%s: its name is %s; the file must be called %s.yaml", quote.Path(file), a.Name, a.Name)
	}
	return &Entry{Adapter: a, Text: text, File: file}, nil
}

// parsedAdapters has the adapters of the program that were asked for, by name. No code changes
// them.
var parsedAdapters sync.Map

func builtin(name string) (*Entry, error) {
	if known, ok := parsedAdapters.Load(name); ok {
		return known.(*Entry), nil
	}
	text, err := embedded.ReadFile("adapters/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("%w %s", ErrUnknown, quote.Arg(name))
	}
	a, err := Parse(name+".yaml", text)
	if err != nil {
		return nil, err
	}
	e := &Entry{Adapter: a, Text: text}
	parsedAdapters.Store(name, e)
	return e, nil
}

// All returns every adapter, by name. The first one that cannot be read is an error.
func (c Catalogue) All() ([]*Entry, error) {
	names, err := c.Names()
	if err != nil {
		return nil, err
	}
	var out []*Entry
	for _, name := range names {
		e, err := c.Find(name)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// Add checks a document and writes it to the operator's directory, in place of one of
// the same name. It returns the adapter and the file.
func (c Catalogue) Add(source string, text []byte) (*Entry, error) {
	a, err := Parse(source, text)
	if err != nil {
		return nil, err
	}
	dir, err := makeDir(c.dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := fsx.WriteFile(dir, a.Name+".yaml", text, 0o600); err != nil {
		return nil, err
	}
	return &Entry{Adapter: a, Text: text, File: c.file(a.Name)}, nil
}

func (c Catalogue) file(name string) string { return c.dir + "/" + name + ".yaml" }

// makeDir opens a directory, and makes it and those above it if they are missing.
func makeDir(name string) (*fsx.Dir, error) {
	above := name
	for {
		if _, err := os.Stat(above); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) || above == filepath.Dir(above) {
			return nil, err
		}
		above = filepath.Dir(above)
	}
	dir, err := fsx.OpenRoot(above)
	if err != nil || above == name {
		return dir, err
	}
	defer dir.Close()
	rest, err := filepath.Rel(above, name)
	if err != nil {
		return nil, err
	}
	if err := dir.MkdirAll(rest, 0o700); err != nil {
		return nil, err
	}
	return dir.OpenDir(rest)
}

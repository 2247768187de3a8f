package patch

import (
	"github.com/forkcell/forkcell/internal/storage/gitread"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Objects are object files of a git repository, and their directories, that follow each
// other in a list of changes and are all new or all deleted. One line stands for them:
// a commit adds dozens, which say nothing to a reader.
type Objects struct {
	Store   string // the directory that they are in
	Kind    tree.ChangeKind
	Entries int // directories too
	Files   int
}

// Name returns the directory of the objects as it is shown.
func (o Objects) Name() string { return quote.Path(o.Store) }

func (o Objects) String() string {
	if o.Kind == tree.Deleted {
		return count(o.Files, "deleted object file")
	}
	return count(o.Files, "new object file")
}

// NewObjects returns the object file, or the directory for such files, that a change
// adds or removes. Store is "" if it is neither.
func NewObjects(path string, kind tree.ChangeKind, dir bool) Objects {
	if kind != tree.Added && kind != tree.Deleted {
		return Objects{}
	}
	o := Objects{Store: gitread.ObjectStore(path, dir), Kind: kind, Entries: 1}
	if !dir {
		o.Files = 1
	}
	return o
}

// objectsOf is NewObjects of a change. Store is also "" if there is more to see: a file
// that can be executed, attributes.
func objectsOf(c tree.Change) Objects {
	e := c.New
	if c.Kind == tree.Deleted {
		e = c.Old
	}
	if e == nil || len(e.Xattrs) > 0 {
		return Objects{}
	}
	plainFile := e.Kind == tree.KindFile && e.Mode&^0o666 == 0
	plainDir := e.Kind == tree.KindDir && e.Mode&^0o777 == 0
	if !plainFile && !plainDir {
		return Objects{}
	}
	return NewObjects(c.Path, c.Kind, plainDir)
}

// FoldObjects calls show for each change of a list, but sum once for changes of object
// files that follow each other. of says which ones are. Directories alone are shown.
func FoldObjects[T any](each func(func(T) error) error, of func(T) Objects, show func(T) error, sum func(Objects)) error {
	var group Objects
	var dirs []T // of a group without files
	end := func() error {
		if group.Files > 0 {
			sum(group)
		}
		for _, c := range dirs {
			if err := show(c); err != nil {
				return err
			}
		}
		group, dirs = Objects{}, nil
		return nil
	}
	err := each(func(c T) error {
		o := of(c)
		if o.Store != group.Store || o.Kind != group.Kind {
			if err := end(); err != nil {
				return err
			}
		}
		if o.Store == "" {
			return show(c)
		}
		group = Objects{o.Store, o.Kind, group.Entries + o.Entries, group.Files + o.Files}
		if dirs = append(dirs, c); group.Files > 0 {
			dirs = nil
		}
		return nil
	})
	if err != nil {
		return err
	}
	return end()
}

package patch

import (
	"github.com/forkcell/forkcell/internal/gitread"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/tree"
)

// objects are new objects of git, and new directories for them, that follow each other
// in a list of changes. One line stands for all of them: a commit adds dozens, which
// say nothing to a reader.
type objects struct {
	store   string
	entries int // directories too
	files   int
}

func (o objects) String() string { return count(o.files, "new object file") }

// name returns the directory of the objects as it is shown.
func (o objects) name() string { return quote.Path(o.store) }

// newObject returns the object store to which a change adds an object, or a directory
// for objects. It returns "" if there is more to see: a name that git would not give,
// a file that can be executed, attributes.
func newObject(c *tree.Change) string {
	e := c.New
	if c.Kind != tree.Added || e == nil || len(e.Xattrs) > 0 {
		return ""
	}
	plainFile := e.Kind == tree.KindFile && e.Mode&^0o666 == 0
	plainDir := e.Kind == tree.KindDir && e.Mode&^0o777 == 0
	if !plainFile && !plainDir {
		return ""
	}
	return gitread.ObjectStore(c.Path)
}

// withObjects calls show for each change but new objects of git, and sum for each group
// of these.
func withObjects(each func(func(tree.Change) error) error, show func(*tree.Change) error, sum func(objects)) error {
	var group objects
	end := func() {
		if group.entries > 0 {
			sum(group)
		}
		group = objects{}
	}
	err := each(func(c tree.Change) error {
		store := newObject(&c)
		if store != group.store {
			end()
		}
		if store == "" {
			return show(&c)
		}
		group.store = store
		group.entries++
		if c.New.Kind == tree.KindFile {
			group.files++
		}
		return nil
	})
	end()
	return err
}

package patch

import (
	"github.com/forkcell/forkcell/internal/gitread"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/tree"
)

// objects are object files of a git repository, and their directories, that follow each
// other in a list of changes and are all new or all deleted. One line stands for them:
// a commit adds dozens, which say nothing to a reader.
type objects struct {
	store   string
	kind    tree.ChangeKind
	entries int // directories too
	files   int
}

func (o objects) String() string {
	if o.kind == tree.Deleted {
		return count(o.files, "deleted object file")
	}
	return count(o.files, "new object file")
}

// name returns the directory of the objects as it is shown.
func (o objects) name() string { return quote.Path(o.store) }

// objectChange returns the object store whose files, or directories for files, a change
// adds or removes. It returns "" if there is more to see: a name that git would not
// give, a file that can be executed, attributes.
func objectChange(c *tree.Change) string {
	e := present(c)
	if c.Kind != tree.Added && c.Kind != tree.Deleted || e == nil || len(e.Xattrs) > 0 {
		return ""
	}
	plainFile := e.Kind == tree.KindFile && e.Mode&^0o666 == 0
	plainDir := e.Kind == tree.KindDir && e.Mode&^0o777 == 0
	if !plainFile && !plainDir {
		return ""
	}
	return gitread.ObjectStore(c.Path)
}

// present returns the side of a change that there is.
func present(c *tree.Change) *tree.Entry {
	if c.Kind == tree.Deleted {
		return c.Old
	}
	return c.New
}

// withObjects calls show for each change but those of object files, and sum for each
// group of these.
func withObjects(each func(func(tree.Change) error) error, show func(*tree.Change) error, sum func(objects)) error {
	var group objects
	end := func() {
		if group.entries > 0 {
			sum(group)
		}
		group = objects{}
	}
	err := each(func(c tree.Change) error {
		store := objectChange(&c)
		if store == "" || store != group.store || c.Kind != group.kind {
			end()
		}
		if store == "" {
			return show(&c)
		}
		group.store, group.kind = store, c.Kind
		group.entries++
		if present(&c).Kind == tree.KindFile {
			group.files++
		}
		return nil
	})
	end()
	return err
}

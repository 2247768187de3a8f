package cli

import (
	"encoding/base64"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/gitread"
	"github.com/forkcell/forkcell/internal/quote"
)

// printChanges lists changes. One line stands for the objects that git added, and for
// their directories: a commit adds dozens.
func printChanges(p *page, changes []api.ChangeJSON) {
	for i := 0; i < len(changes); {
		store, objects, next := newObjects(changes[i:])
		if store == "" {
			p.printf("%s\n", nameStatus(p, changes[i]))
			i++
			continue
		}
		p.printf("%s\n", p.paint(green, "A\t"+quote.Path(store)+": "+count(int64(objects), "object file", "object files")))
		i += next
	}
}

// newObjects returns the object store of the new objects of git that a list begins with,
// how many objects these are, and how many entries of the list.
func newObjects(changes []api.ChangeJSON) (store string, objects, entries int) {
	for _, c := range changes {
		at := gitread.ObjectStore(c.Path)
		if c.Change != "added" || at == "" || entries > 0 && at != store {
			break
		}
		store = at
		entries++
		if c.Type == "file" {
			objects++
		}
	}
	return store, objects, entries
}

// nameStatus returns one change on one line, as diff --name-status shows it.
func nameStatus(p *page, c api.ChangeJSON) string {
	path := quote.Path(rawPath(c.Path, c.PathBase64))
	switch c.Change {
	case "added":
		return p.paint(green, "A\t"+path)
	case "deleted":
		return p.paint(red, "D\t"+path)
	case "renamed":
		return p.paint(cyan, "R100\t"+quote.Path(c.OldPath)+"\t"+path)
	case "type":
		return "T\t" + path
	default:
		return "M\t" + path
	}
}

// rawPath returns the exact bytes of a path that JSON could not carry as text.
func rawPath(path, encoded string) string {
	if encoded == "" {
		return path
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return path
	}
	return string(raw)
}

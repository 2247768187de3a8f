package cli

import (
	"encoding/base64"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/gitread"
	"github.com/forkcell/forkcell/internal/quote"
)

// printChanges lists changes. One line stands for the object files that git added or
// removed, and for their directories: a commit adds dozens.
func printChanges(p *page, changes []api.ChangeJSON) {
	for i := 0; i < len(changes); {
		all, files := objectFiles(changes[i:])
		c := changes[i]
		i += max(1, all)
		if all == 0 {
			p.printf("%s\n", nameStatus(p, c))
			continue
		}
		store := api.ChangeJSON{Path: gitread.ObjectStore(c.Path), Change: c.Change}
		p.printf("%s: %s\n", nameStatus(p, store), count(int64(files), "object file", "object files"))
	}
}

// objectFiles returns how many changes a list begins with that add object files to a
// git repository, or that remove some, and how many of them are no directories.
func objectFiles(changes []api.ChangeJSON) (all, files int) {
	first := changes[0]
	store := gitread.ObjectStore(first.Path)
	if store == "" || first.Change != "added" && first.Change != "deleted" {
		return 0, 0
	}
	for _, c := range changes {
		if c.Change != first.Change || gitread.ObjectStore(c.Path) != store {
			break
		}
		all++
		if c.Type == "file" {
			files++
		}
	}
	return all, files
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

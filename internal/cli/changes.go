package cli

import (
	"encoding/base64"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/patch"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/tree"
)

// printChanges lists changes. Object files of git repositories are counted.
func printChanges(p *page, changes []api.ChangeJSON) {
	each := func(yield func(api.ChangeJSON) error) error {
		for _, c := range changes {
			if err := yield(c); err != nil {
				return err
			}
		}
		return nil
	}
	of := func(c api.ChangeJSON) patch.Objects {
		if c.Type != "file" && c.Type != "directory" {
			return patch.Objects{}
		}
		return patch.NewObjects(c.Path, tree.ChangeKind(c.Change), c.Type == "directory")
	}
	_ = patch.FoldObjects(each, of, func(c api.ChangeJSON) error { // nothing here fails
		p.printf("%s\n", nameStatus(p, c))
		return nil
	}, func(o patch.Objects) {
		line := nameStatus(p, api.ChangeJSON{Path: o.Store, Change: string(o.Kind)})
		p.printf("%s: %s\n", line, count(int64(o.Files), "object file", "object files"))
	})
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

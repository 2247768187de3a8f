package cli

import (
	"encoding/base64"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/patch"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
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
		nameStatus(p, c, "")
		return nil
	}, func(o patch.Objects) {
		nameStatus(p, api.ChangeJSON{Path: o.Store, Change: string(o.Kind)}, ": "+count(int64(o.Files), "object file", "object files"))
	})
}

// nameStatus writes one change on one line, as diff --name-status shows it, and a note
// at its end.
func nameStatus(p *page, c api.ChangeJSON, note string) {
	letter, in := "M", plain
	paths := []string{quote.Path(rawPath(c.Path, c.PathBase64))}
	switch c.Change {
	case "added":
		letter, in = "A", green
	case "deleted":
		letter, in = "D", red
	case "renamed":
		letter, in = "R100", cyan
		paths = append([]string{quote.Path(c.OldPath)}, paths...)
	case "type":
		letter = "T"
	}
	paint := func(text string) string {
		if in == plain {
			return text
		}
		return p.paint(in, text)
	}
	p.printf("%s", paint(letter))
	for _, path := range paths {
		p.printf("\t%s", paint(path))
	}
	p.printf("%s\n", note)
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

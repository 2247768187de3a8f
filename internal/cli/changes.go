package cli

import (
	"encoding/base64"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/quote"
)

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

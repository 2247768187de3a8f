package home

import (
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/internal/text/redact"
)

// Recordable returns argv as it may be recorded: without secrets, every byte as text.
func Recordable(argv []string) []string {
	out := redact.Args(argv)
	for i, a := range out {
		if quote.Base64(a) != "" {
			out[i] = quote.Arg(a)
		}
	}
	return out
}

// PathNote returns a note about a path.
func PathNote(path, text string) api.PathNote {
	return api.PathNote{Path: path, PathBase64: quote.Base64(path), Note: text}
}

// LeftBehind returns the note about a file of a git directory that is not written to the
// host. See outgoing.Behind.
func LeftBehind(path string) api.PathNote { return PathNote(path, "of no use outside of the cell") }

// LeftOut lists the paths that a cell leaves out, with the rule for each.
func LeftOut(c store.Cell) []api.LeftOut {
	out := []api.LeftOut{}
	for _, l := range c.LeftOut {
		out = append(out, api.LeftOut{Path: string(l.Path), Rule: l.Rule})
	}
	return out
}

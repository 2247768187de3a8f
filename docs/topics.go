// Package docs has the pages that the program shows itself: an error can name a page to
// a reader who has only the program.
package docs

import (
	"embed"
	"fmt"
)

//go:embed reference/control-files.md reference/exit-codes.md reference/left-out.md reference/limits.md reference/policy.md reference/publish.md
var pages embed.FS

// Topic is a page of the reference.
type Topic struct {
	// Name is what forkcell help takes.
	Name string
	// About says in a few words what the page has.
	About string

	page string
}

// Topics returns the pages that the program shows.
func Topics() []Topic {
	return []Topic{
		{"policy-file", "every key of a policy, and the operator's grants", "policy"},
		{"publish-settings", "what a publication checks, and its settings", "publish"},
		{"limits", "what each limit of a cell needs of the host", "limits"},
		{"control-files", "files that make the host run something later", "control-files"},
		{"left-out-files", "files that stay out of cells", "left-out"},
		{"exit-codes", "every exit code and every code of an error", "exit-codes"},
	}
}

// Text returns the page, as Markdown.
func (t Topic) Text() string {
	text, err := pages.ReadFile("reference/" + t.page + ".md")
	if err != nil {
		panic(fmt.Errorf("the page %s is not in the program: %w", t.page, err)) // a test reads them all
	}
	return string(text)
}

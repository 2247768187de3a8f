package repo

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestLinks follows every relative link of every page, and every mention of a
// page of docs in code, scripts and settings.
func TestLinks(t *testing.T) {
	t.Parallel()
	var (
		link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
		mention = regexp.MustCompile(`(?:^|[^\w/.])(docs/[\w/-]+\.md)\b`)
		code    = []string{".go", ".sh", ".txtar", ".yml", ".md", "Makefile"}
	)
	for _, name := range files(t) {
		if !slices.ContainsFunc(code, func(end string) bool { return strings.HasSuffix(name, end) }) {
			continue
		}
		text := read(t, name)
		if strings.HasSuffix(name, ".md") {
			for _, m := range link.FindAllStringSubmatch(prose(text), -1) {
				checkLink(t, name, m[1])
			}
		}
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/") {
			continue // their docs/ is often a workspace's
		}
		for _, m := range mention.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("..", "..", "..", m[1])); err != nil {
				t.Errorf("%s names %s: %v", name, m[1], err)
			}
		}
	}
}

// TestLinksToFiles: a file or a directory of this repository that a page names in
// backquotes exists. Dated records keep the names of their day.
func TestLinksToFiles(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile("`((?:api|client|cmd|examples|gvisor|internal|receipt|scripts|sdk)/[\\w./-]*)`")
	dated := regexp.MustCompile(`^(CHANGELOG\.md|docs/decisions/|docs/internals/measurements/)`)
	for _, page := range files(t) {
		if !strings.HasSuffix(page, ".md") || dated.MatchString(page) {
			continue
		}
		for _, m := range named.FindAllStringSubmatch(prose(read(t, page)), -1) {
			if _, err := os.Stat(filepath.Join("..", "..", "..", filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s names %s: %v", page, m[1], err)
			}
		}
	}
}

// TestIndex holds docs/README.md to the pages: each has one line there.
func TestIndex(t *testing.T) {
	t.Parallel()
	index := read(t, "docs/README.md")
	for _, name := range files(t) {
		page, inside := strings.CutPrefix(name, "docs/")
		if !inside || page == "README.md" || !strings.HasSuffix(page, ".md") {
			continue
		}
		if n := strings.Count(index, "]("+page+")"); n != 1 {
			t.Errorf("docs/README.md links to %s %d times, want once", page, n)
		}
	}
}

// checkLink reports a link of page that leads nowhere.
func checkLink(t *testing.T, page, target string) {
	t.Helper()
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return
	}
	file, fragment, _ := strings.Cut(target, "#")
	if file == "" {
		file = path.Base(page)
	}
	at := path.Join(path.Dir(page), file)
	info, err := os.Stat(filepath.Join("..", "..", "..", at))
	switch {
	case err != nil:
		t.Errorf("%s links to %s: %v", page, target, err)
	case fragment != "" && !info.IsDir() && !slices.Contains(anchors(read(t, at)), fragment):
		t.Errorf("%s links to %s: no such heading", page, target)
	}
}

// anchors returns the names that headings have in links.
func anchors(text string) []string {
	var names []string
	for line := range strings.Lines(prose(text)) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		title = strings.ToLower(strings.TrimSpace(title))
		names = append(names, regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ReplaceAll(title, " ", "-"), ""))
	}
	return names
}

// prose returns a page without its code blocks.
func prose(text string) string {
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
}

// files returns the regular files of the repository.
func files(t *testing.T) []string {
	t.Helper()
	var names []string
	top := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(top, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		if d.IsDir() && (rel == ".git" || rel == "bin" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() {
			names = append(names, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

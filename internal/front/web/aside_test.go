package web

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// differ compares states that have one change, and one that is set aside.
type differ struct{}

func (differ) Diff(context.Context, api.DiffRequest) (*engine.DiffResult, error) {
	added := func(path string) tree.Change {
		return tree.Change{Path: path, Kind: tree.Added, New: &tree.Entry{Kind: tree.KindFile, Mode: 0o644, Size: 5}}
	}
	return &engine.DiffResult{
		Raw: []tree.Change{added("work.txt")}, RawAside: []tree.Change{added("docs/.envrc")},
		Open: func(int, string, tree.Entry) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("text\n")), nil
		},
		Control: func([]tree.Change) (map[string]string, error) { return map[string]string{}, nil },
	}, nil
}

// TestAside: the pages list changes that are set aside, without ticks.
func TestAside(t *testing.T) {
	t.Parallel()
	page, err := compare(t.Context(), differ{}, api.DiffRequest{}, diffOptions{open: true, view: "unified"})
	if err != nil {
		t.Fatal(err)
	}
	run := &api.RunInfo{RunID: "run_1", Cell: "demo", Decision: "pending"}
	for name, body := range map[string]any{
		"run":     runBody{RunInfo: run, Changes: page, Decides: true},
		"compare": compareBody{Cell: "demo", Changes: page},
	} {
		var b bytes.Buffer
		if err := pages()[name].ExecuteTemplate(&b, "frame.html", frame{Body: body}); err != nil {
			t.Fatal(err)
		}
		_, aside, found := strings.Cut(b.String(), engine.AsideHeading)
		if !found || !strings.Contains(aside, "docs/.envrc") || strings.Contains(aside, "checkbox") || strings.Contains(aside, "work.txt") {
			t.Errorf("the page %s does not list what is set aside:\n%s", name, b.String())
		}
	}
	if _, _, err := findChange(t.Context(), differ{}, api.DiffRequest{}, "docs/.envrc"); err != nil {
		t.Error("a change that is set aside has no page:", err)
	}
}

package engine_test

import (
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

// large returns contents whose digest depends on the version of the tree.
func large(word string) string {
	return strings.Repeat(word+"\n", tree.LargeFile/(len(word)+1)+1)
}

// TestRefreshOldState: a state of an older version is compared with the source
// by its bytes.
func TestRefreshOldState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("big", large("one"))
	w.write("other", "1\n")
	w.init("demo", "clone")
	w.ok(w.e.SealOld(w.ctx, "demo", "big", large("two")))
	if plain, err := w.e.PlainDigest("demo", "big"); !plain || err != nil {
		t.Fatalf("the state is none of version 1: %v", err)
	}
	// Both sides made the same change.
	w.write("big", large("two"))
	w.write("other", "2\n")
	res, err := w.e.Refresh(w.ctx, api.RefreshRequest{Cell: "demo"})
	w.ok(err)
	if len(res.Changed) != 1 || res.Changed[0].Path != "other" {
		t.Errorf("changed: %+v", res.Changed)
	}
	// Different changes are still noticed.
	w.write("big", large("six"))
	if res, err = w.e.Refresh(w.ctx, api.RefreshRequest{Cell: "demo"}); err != nil || len(res.Changed) != 1 || res.Changed[0].Path != "big" {
		t.Errorf("changed: %+v: %v", res, err)
	}
}

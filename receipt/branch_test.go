package receipt

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// branched is a run that began with the memory of another cell.
func branched() *Run {
	r := testRun(1)
	r.Branch = &Branch{Source: "demo", SourceRunID: "run_01", CheckpointID: "chk_01", At: time.Date(2026, 11, 17, 1, 2, 3, 0, time.UTC)}
	return r
}

func TestBranchRoundTrip(t *testing.T) {
	t.Parallel()
	l, r := newTestLog(t), branched()
	s, err := Verify(l.add(r), trusted(1))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, s.Predicate); diff != "" {
		t.Error(diff)
	}
	if page := markdownOf(t, r); !strings.Contains(page, "| Branch of | `\"demo, run run_01\"` |") {
		t.Error(page)
	}
	if page := markdownOf(t, testRun(1)); strings.Contains(page, "Branch") {
		t.Error(page)
	}
}

func TestBadBranch(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Branch){
		"no source":     func(b *Branch) { b.Source = "" },
		"no run":        func(b *Branch) { b.SourceRunID = "chk_01" },
		"no checkpoint": func(b *Branch) { b.CheckpointID = "" },
		"no time":       func(b *Branch) { b.At = time.Time{} },
	} {
		r := branched()
		spoil(r.Branch)
		if err := r.Branch.check(); err == nil || !strings.Contains(err.Error(), "branch: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

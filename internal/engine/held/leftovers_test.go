package held

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/store"
)

// TestFinishersByKind: each intent goes to the finisher of its kind, one of an unknown kind
// is refused, and only those that need something add it.
func TestFinishersByKind(t *testing.T) {
	t.Parallel()
	var finished []string
	failed := errors.New("not readable")
	l := &Leftovers{Finishers: []Finisher{
		{Kind: "a", Finish: func(_ context.Context, _ *Cell, in store.Intent) error {
			finished = append(finished, in.ID)
			return nil
		}},
		{Kind: "b", Needs: func(in store.Intent, needed Holdings) error {
			needed.Layers[in.ID] = true
			return failed
		}},
	}}
	if err := l.finish(t.Context(), nil, store.Intent{ID: "op_1", Kind: "a"}); err != nil || strings.Join(finished, " ") != "op_1" {
		t.Errorf("finished %v, error %v", finished, err)
	}
	if err := l.finish(t.Context(), nil, store.Intent{ID: "op_2", Kind: "c"}); err == nil || !strings.Contains(err.Error(), `unknown intent "c": a newer version left it`) {
		t.Errorf("an unknown kind: %v", err)
	}
	needed := Holdings{States: map[string]bool{}, Layers: map[string]bool{}}
	for _, kind := range []string{"a", "c"} {
		if err := l.AddNeeds(store.Intent{ID: "op_3", Kind: kind}, needed); err != nil || len(needed.Layers) > 0 {
			t.Errorf("kind %s needs %v, error %v", kind, needed, err)
		}
	}
	if err := l.AddNeeds(store.Intent{ID: "op_4", Kind: "b"}, needed); !errors.Is(err, failed) || !strings.Contains(err.Error(), "op_4") || !needed.Layers["op_4"] {
		t.Errorf("kind b needs %v, error %v", needed, err)
	}
}

package apply

import (
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A failure whose roll-back fails too is reported as such, and recovery
// finishes it.
func TestFailedRollBack(t *testing.T) {
	t.Parallel()
	for _, undo := range []string{"apply.undo", "apply.clear", "apply.undone"} {
		for _, first := range []string{"apply.stage", "apply.op", "apply.displaced", "apply.meta", "apply.commit", "conflict"} {
			if first == "apply.stage" && undo == "apply.undo" {
				continue // nothing was exchanged yet
			}
			t.Run(first+" "+undo, func(t *testing.T) {
				t.Parallel()
				failedRollBack(t, first, undo)
			})
		}
	}
}

func failedRollBack(t *testing.T, first, undo string) {
	p := quickPlace(t, start())
	left := 2
	_, err := execute(t, p, start(), finished(), Options{Hook: func(step string) error {
		if first == "conflict" && step == "apply.journalled" {
			return os.WriteFile(p.target+"/new", []byte("mine"), 0o644)
		}
		if step == first {
			if left--; left <= 0 || step == "apply.meta" || step == "apply.commit" {
				return unix.EIO
			}
		}
		if step == undo {
			return unix.EROFS
		}
		return nil
	}})
	if !errors.Is(err, ErrUnfinished) || !errors.Is(err, unix.EROFS) {
		t.Fatalf("got %v", err)
	}
	if first == "conflict" {
		check(t, os.Remove(p.target+"/new"))
	}
	j := p.open(t, "a1")
	defer func() { _ = j.Close() }()
	back, err := Recover(context.Background(), p.target, j)
	if !back || err != nil {
		t.Errorf("recover: %v, %v", back, err)
	}
	noStaging(t, p.target)
	same(t, "recovered", p.target, start())
}

package web

import (
	"errors"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestGone: only what does not exist is gone.
func TestGone(t *testing.T) {
	t.Parallel()
	if !isGone(api.Missing("cell", "x", "")) {
		t.Error("what does not exist is not gone")
	}
	for _, err := range []error{errors.New("read error"), api.Refusef(api.CodeDamaged, "", "damaged"), api.Failf(api.CodeDamaged, errors.New("x"), "failed")} {
		if isGone(err) {
			t.Errorf("%v: gone", err)
		}
	}
}

package remote

import (
	"context"
	"errors"
	"testing"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
)

// TestInterrupted: the command line recognises what its user has interrupted.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	if err := failure(&client.Error{Code: api.CodeInterrupted, Message: "interrupted"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := failure(&client.Error{Code: api.CodeFailed, Message: "failed"}); errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

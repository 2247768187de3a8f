package remote

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
)

// TestOlderDaemon: a daemon that lacks a parameter or a field is said to be older.
func TestOlderDaemon(t *testing.T) {
	t.Parallel()
	for detail, want := range map[string]string{
		"query.all: unknown query parameter": "the daemon does not know all: it is of another version than this program",
		"body.warm: unexpected property":     "the daemon does not know warm: it is of another version than this program",
		"body.n: expected integer":           "validation failed",
	} {
		p := &client.Error{Kind: api.Usage, Code: api.CodeUsage, Status: http.StatusBadRequest, Message: "validation failed", Hint: "see /docs", Details: []string{detail}}
		if err := failure(p); api.KindOf(err) != api.Usage || err.Error() != want {
			t.Error(err)
		}
	}
}

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

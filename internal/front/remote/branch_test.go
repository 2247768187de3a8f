package remote_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/remote"
)

// TestBranchSettings: the daemon gets the settings of the new cells.
func TestBranchSettings(t *testing.T) {
	t.Parallel()
	var got api.BranchBody
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(daemon.Close)
	e, release, err := remote.Open(api.DaemonOptions{URL: daemon.URL}, caller.Caller{}, remote.Homes{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = release() })
	_, err = e.Branch(t.Context(), api.BranchRequest{
		Cell: "warm", N: 2, Settings: api.Settings{Labels: map[string]string{"team": "a"}, TTL: api.Duration(time.Hour), OnTimeout: "remove"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Labels["team"] != "a" || got.TTL != "1h0m0s" || got.OnTimeout != "remove" {
		t.Errorf("the daemon got %+v", got)
	}
}

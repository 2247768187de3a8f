package daemon_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/front/rest"
)

// TestUsageOfOneCell asks what cells use for a caller that is bound to one. Its forks
// count, and no other cell whose name begins with that of its own.
func TestUsageOfOneCell(t *testing.T) {
	t.Parallel()
	engine, release, err := local.Open(t.TempDir()+"/home", local.Serve, caller.Caller{Actor: func() string { return "test" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	})
	var id string
	for _, name := range []string{"demo-private", "demo2", "other", "demo"} {
		made, err := engine.Init(t.Context(), api.InitRequest{Name: name, Empty: true})
		if err != nil {
			t.Fatal(err)
		}
		id = made.CellID
	}
	if _, err := engine.Fork(t.Context(), api.ForkRequest{Cell: "demo", Name: "fork"}); err != nil {
		t.Fatal(err)
	}
	s := rest.New(rest.Config{Engine: func(c caller.Caller) rest.Engine { return engine.As(c) }, Tokens: engine.Tokens()})
	client := s.BoundClient(rest.Bound{Name: "model", Cell: "demo", CellID: id})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/usage", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var usage api.UsageResult
	if err := json.NewDecoder(resp.Body).Decode(&usage); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range usage.Cells {
		names = append(names, c.Cell)
	}
	if !slices.Equal(names, []string{"demo", "fork"}) {
		t.Errorf("have %q", names)
	}
}

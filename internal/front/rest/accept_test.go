package rest_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/rest"
)

// TestPanic: a handler that panics is a failure in the log, and the caller gets a problem.
// Without an engine every handler panics that needs one.
func TestPanic(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c := rest.New(rest.Config{
		Engine: func(caller.Caller) rest.Engine { return nil }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}).BoundClient(rest.Bound{Name: "test", Cell: "demo"})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/cells", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var p api.Problem
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || resp.StatusCode != 500 || p.Code != api.CodeFailed || strings.Contains(p.Detail, "nil") {
		t.Errorf("%d %+v %v", resp.StatusCode, p, err)
	}
	c.Wait()
	if text := log.String(); !strings.Contains(text, "panic=") || !strings.Contains(text, "listCells") || !strings.Contains(text, p.Instance) {
		t.Errorf("the log has no cause: %s", text)
	}
}

package remote_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/remote"
)

// TestListWithoutEnd: a list that goes on without items, or with the same part again, is an
// error. The command does not go on for ever.
func TestListWithoutEnd(t *testing.T) {
	t.Parallel()
	for _, page := range []string{`{"items":[],"next":"more"}`, `{"items":[{"pid":1}],"next":"same"}`} {
		asked := 0
		daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked > 3 {
				w.WriteHeader(http.StatusTeapot)
				return
			}
			_, _ = io.WriteString(w, page)
		}))
		t.Cleanup(daemon.Close)
		e, release, err := remote.Open(api.DaemonOptions{URL: daemon.URL}, caller.Caller{}, remote.Homes{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = release() })
		if _, err := e.Processes(t.Context(), "demo"); api.CodeOf(err) != api.CodeProtocol || asked > 2 {
			t.Errorf("%s: %d requests, %v", page, asked, err)
		}
	}
}

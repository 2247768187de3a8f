package server_test

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/server"
)

var update = flag.Bool("update", false, "write api/openapi.yaml")

// TestOpenAPI compares the description of the API with the committed one, from which
// the SDKs' types are made.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	const file = "../../api/openapi.yaml"
	s := server.New(server.Config{Engine: func(cell.Caller) server.Engine { return nil }})
	got, err := s.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("api/openapi.yaml is not what the routes say; go test ./internal/server -run TestOpenAPI -update writes it:\n%s", diff)
	}
}

package rest_test

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/rest"
)

var update = flag.Bool("update", false, "write api/openapi.yaml")

// description returns the description of the API.
func description(t *testing.T) []byte {
	t.Helper()
	text, err := rest.New(rest.Config{Engine: func(caller.Caller) rest.Engine { return nil }}).OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestOpenAPI compares the description of the API with the committed one, from which
// the SDKs' types are made.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	const file = "../../../api/openapi.yaml"
	got := description(t)
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
		t.Errorf("api/openapi.yaml is not what the routes say; go test ./internal/front/rest -run TestOpenAPI -update writes it:\n%s", diff)
	}
}

// TestOpenAPIPaths compares the parameters in the path of each operation with those
// that it declares. make fuzz-api has the document checked by a validator.
func TestOpenAPIPaths(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name, In string
				Required bool
			}
		}
	}
	if err := yaml.Unmarshal(description(t), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Paths) == 0 {
		t.Fatal("no paths")
	}
	for path, operations := range doc.Paths {
		var want []string
		for _, m := range regexp.MustCompile(`\{([^}]*)\}`).FindAllStringSubmatch(path, -1) {
			want = append(want, m[1])
		}
		slices.Sort(want)
		for method, op := range operations {
			var got []string
			for _, p := range op.Parameters {
				if p.In != "path" {
					continue
				}
				got = append(got, p.Name)
				if !p.Required {
					t.Errorf("%s %s: the parameter %s is not required", method, path, p.Name)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s %s: path and declared parameters differ:\n%s", method, path, diff)
			}
		}
	}
}

// TestScopes holds the scopes of the routes, which the description shows, to the
// contract. A route that is not named here and changes something needs run.
func TestScopes(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths map[string]map[string]struct {
			ID     string   `yaml:"operationId"`
			Scopes []string `yaml:"x-scopes"`
		}
	}
	if err := yaml.Unmarshal(description(t), &doc); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"accept": {"run", "decide"}, "reject": {"run", "decide"}, "choose": {"run", "decide"}, "apply": {"run", "decide"}, "undo": {"run", "decide"},
		"reportPublication": {"run", "decide"},
		"listFiles":         {"read"}, "statFile": {"read"}, "watchFiles": {"read"}, "verifyCell": {"read"}, "verifyReceipts": {"read"},
		"validatePolicy": {"read"}, "explainPolicy": {"read"}, "suggestPolicy": {"read"},
		"execSocket": {"run"}, "attach": {"run"}, "getPort": {"run"}, "runSocket": {"run"}, "agentSocket": {"run"}, "forwardPort": {"run"},
		"metrics": {"admin", "unbounded"}, "getHomeDisk": {"admin", "unbounded"}, "collectGarbage": {"admin", "unbounded"}, "doctor": {"admin", "unbounded"}, "getKey": {"admin", "unbounded"}, "setPolicy": {"admin"},
		"listTokens": {"admin", "unbounded"}, "createToken": {"admin", "unbounded"}, "revokeToken": {"admin", "unbounded"},
		"acceptSession": {"run", "decide"}, "publishSession": {"run", "decide"}, "listAgentCredentials": {"admin", "unbounded"},
		"health": nil, "ready": nil, "version": nil,
	}
	for path, operations := range doc.Paths {
		for method, op := range operations {
			scopes, named := want[op.ID]
			delete(want, op.ID)
			if !named {
				scopes = map[bool][]string{true: {"read"}, false: {"run"}}[method == "get"]
			}
			if diff := cmp.Diff(scopes, op.Scopes); diff != "" {
				t.Errorf("%s %s (%s): %s", method, path, op.ID, diff)
			}
		}
	}
	for id := range want {
		t.Errorf("no route is called %s", id)
	}
}

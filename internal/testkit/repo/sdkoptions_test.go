package repo

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// methodOf is the method of an operation, if its name is not that of the operation.
var methodOf = map[string]string{
	"createCheckpoint": "Cell.checkpoint", "forkCell": "Cell.fork", "removeCell": "Cell.remove", "updateCell": "Cell.update", "undeleteCell": "Cell.undelete", "verifyCell": "Cell.verify",
	"acceptSession": "Session.accept", "publishSession": "Session.publish", "removeSession": "Session.remove", "rewindSession": "Session.rewind", "stopSession": "Session.stop",
	"execSocket": "Cell.open_exec", "setPolicy": "Cell.set_policy",
	"listCells": "Cells.list", "listSessions": "Sessions.list", "listDecisions": "Decisions.list", "listReceipts": "Receipts.list",
	"listAgentCredentials": "Agents.credentials", "getRunLogs": "Runs.output", "removeFile": "Files.remove", "writeFile": "Files.write", "diff": "Cell.diff",
}

// given are parameters that a method gives by itself, or has in another form.
var given = map[string]string{"limit": "", "cursor": "", "format": "", "since": "", "label": "labels", "from": "from_"}

// commandLineOnly are operations that no method of an SDK has.
var commandLineOnly = []string{"reportPublication"}

// TestSDKOptions: what a request can have besides its body, the method of the Python client
// has, and a change that can be conditional is so in all three. The fields of bodies are
// generated.
func TestSDKOptions(t *testing.T) {
	t.Parallel()
	python, typescript, golang := signatures(t, "sdk-python.md"), signatures(t, "sdk-typescript.md"), signatures(t, "sdk-go.md")
	conditional, optional := 0, 0
	for id, names := range parameters(t) {
		method := methodOf[id]
		if method == "" {
			method = "Cell." + id
		}
		signature, found := python[method]
		if names["If-Match"] && !slices.Contains(commandLineOnly, id) {
			conditional++
			goes := strings.Contains(golang[method], "...CallOption")
			for language, ok := range map[string]bool{"Python": strings.Contains(signature, "if_match"), "TypeScript": strings.Contains(typescript[method], "ChangeOptions"), "Go": goes} {
				if !ok {
					t.Errorf("%s: %s of %s cannot be conditional", id, method, language)
				}
			}
		}
		for name := range names {
			argument, other := given[name]
			if !found || name == "If-Match" || other && argument == "" {
				continue
			}
			if !other {
				argument = name
			}
			if optional++; !regexp.MustCompile(`\b` + argument + "s?:").MatchString(signature) {
				t.Errorf("%s: %s has no %s: %s", id, method, name, signature)
			}
		}
	}
	if conditional < 20 || optional < 25 {
		t.Errorf("%d conditional changes and %d parameters only", conditional, optional)
	}
}

// signatures returns the rows of a reference page, by Class.method_name.
func signatures(t *testing.T, page string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../docs/reference", page))
	if err != nil {
		t.Fatal(err)
	}
	humps := regexp.MustCompile(`([a-z0-9])([A-Z])`)
	found, class := map[string]string{}, ""
	for _, m := range regexp.MustCompile("(?m)^(?:## (\\w+)|\\| `(\\w+)(\\(.*?)` \\|)").FindAllStringSubmatch(string(text), -1) {
		if class == "" || m[1] != "" {
			class = m[1]
			continue
		}
		found[class+"."+strings.ToLower(humps.ReplaceAllString(m[2], "${1}_$2"))] = m[3]
	}
	return found
}

// parameters returns the names of the query parameters of each operation, and If-Match.
func parameters(t *testing.T) map[string]map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `yaml:"operationId"`
			Parameters  []struct{ Name, In string }
		}
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]bool{}
	for _, methods := range doc.Paths {
		for _, o := range methods {
			found[o.OperationID] = map[string]bool{}
			for _, p := range o.Parameters {
				if p.In == "query" || p.Name == "If-Match" {
					found[o.OperationID][p.Name] = true
				}
			}
		}
	}
	return found
}

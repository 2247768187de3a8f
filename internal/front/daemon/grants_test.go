package daemon_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestGrantsOfTheOperator: config.yaml grants a path to callers over the socket, who are the
// operator, for the policy that it names, and nothing to a token.
func TestGrantsOfTheOperator(t *testing.T) {
	t.Parallel()
	config, granted := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(granted, "file"), "granted\n")
	if err := os.Chmod(filepath.Join(granted, "file"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := newRemote(t, api.ServeOptions{Operator: api.Operator{Config: config}})
	d.cell("demo")
	text := "version: 1\nfilesystem_policy:\n  read_only: [/usr, /bin, /lib, /lib64, /etc, " + granted + "]\n"
	run := api.RunBody{Command: []string{"cat", filepath.Join(granted, "file")}, RunSettings: api.RunSettings{Policy: text}}
	d.problem(422, api.CodeGrant, "POST", "/v1/cells/demo/runs", run)

	var valid api.PolicyResult
	d.want(200, &valid, "POST", "/v1/policies/validate", api.ValidateBody{Policy: text})
	write(filepath.Join(config, "config.yaml"), "grants: [{policy: \"sha256:"+valid.PolicyHash+"\", path: "+granted+"}]\n")
	var res api.RunAnswer
	d.want(200, &res, "POST", "/v1/cells/demo/runs", run)
	if res.Stdout != "granted\n" {
		t.Errorf("%+v", res)
	}
	other := run
	other.Policy = text + "limits: {pids: 50}\n"
	d.problem(422, api.CodeGrant, "POST", "/v1/cells/demo/runs", other)
	ci := d.token(api.TokenBody{Name: "ci", Scopes: []string{"admin"}, Policy: text})
	ci.problem(422, api.CodeGrant, "POST", "/v1/cells/demo/runs", run)
}

package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func policyFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRunGovernance(t *testing.T) {
	t.Parallel()
	file := policyFile(t, "version: 1\n")
	given := &api.PolicyFile{Name: api.Text(file), Text: []byte("version: 1\n"), Path: api.Text(file)}
	for line, want := range map[string]api.RunRequest{
		"run --memory 2GiB --cpus 1.5 --pids 256 demo -- a": {RunOptions: api.RunOptions{Memory: 2 << 30, CPUs: 1500, PIDs: 256}},
		"run demo --memory 1048576 --allow-degraded -- a":   {RunOptions: api.RunOptions{Memory: 1 << 20, AllowDegraded: true}},
		"run --policy " + file + " --timeout 1h demo -- a":  {RunOptions: api.RunOptions{Policy: given, Timeout: time.Hour}},
		"run --dry-run --policy " + file + " demo -- a":     {RunOptions: api.RunOptions{Policy: given}},
	} {
		want.Cell, want.Args, want.Network.CredentialsFile = "demo", []string{"a"}, credentialsFile()
		want.Grants.ConfigFile = api.Text(configFile("config.yaml"))
		f := &fakeEngine{run: ended()}
		code, _, stderr := call(t, f, strings.Fields(line)...)
		got, ok := f.got.(api.RunRequest)
		if code != 0 || !ok {
			t.Errorf("%s: exit %d: %s", line, code, stderr)
			continue
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
		if !slices.ContainsFunc(f.caller.Env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") }) {
			t.Errorf("%s: the caller's environment cannot be asked", line)
		}
	}
}

// A bad value is one clear line, before anything is opened.
func TestRunGovernanceBadValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for flag, says := range map[string]string{
		"--memory lots":               "not a size",
		"--memory 2GB2":               "not a size",
		"--memory -1":                 "not a size",
		"--memory 1KiB":               "less than 1MiB",
		"--memory 0":                  "not from 1 byte",
		"--cpus many":                 "not a number of processors",
		"--cpus 0":                    "not from 0.01",
		"--cpus 1.2345":               "not a number of processors",
		"--pids 0":                    "not a whole number",
		"--pids 1.5":                  "not a whole number",
		"--timeout 1us":               "--timeout",
		"--timeout 9999999h":          "--timeout",
		"--policy " + dir + "/none":   "no such file",
		"--policy " + dir:             "it is a directory",
		"--dry-run --policy " + dir:   "it is a directory",
		"--memory 1MiB --timeout 1us": "--timeout",
	} {
		f := &fakeEngine{run: ended()}
		code, _, stderr := call(t, f, strings.Fields("run "+flag+" demo -- true")...)
		if code != 2 || f.opened != 0 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit %d, opened %d, %q", flag, code, f.opened, stderr)
		}
	}
}

func TestInitPolicy(t *testing.T) {
	t.Parallel()
	file := policyFile(t, "version: 1\n")
	f := &fakeEngine{}
	if code, _, stderr := call(t, f, "init", "demo", "--from", "d", "--policy", file); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	got := f.got.(api.InitRequest)
	if diff := cmp.Diff(&api.PolicyFile{Name: api.Text(file), Text: []byte("version: 1\n"), Path: api.Text(file)}, got.Policy); diff != "" {
		t.Error(diff)
	}
	f = &fakeEngine{}
	if code, _, stderr := call(t, f, "init", "demo", "--from", "d", "--policy", file+".none"); code != 2 || f.opened != 0 {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// Package mcptest runs programs of others that speak the Model Context Protocol, for
// tests. scripts/conformance/fetch.sh installs them.
//
// It must not know what is tested.
package mcptest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the directory of the programs, as packages two levels below the root of the
// repository see it.
const root = "../../../bin/conformance/node_modules"

// Suite is the public conformance suite.
type Suite struct{ script script }

// NewSuite returns the suite. Without it the test skips.
func NewSuite(t testing.TB) Suite {
	t.Helper()
	return Suite{find(t, "@modelcontextprotocol/conformance/dist/index.js")}
}

// Run runs one scenario against a server. A warning is a failure, too.
func (s Suite) Run(t testing.TB, url, scenario string) {
	t.Helper()
	cmd := s.script.command(t, "server", "--url", url, "--scenario", scenario, "--verbose")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	checkPassed(t, out)
}

// RunAll runs every scenario of the suite against a server, and returns how many.
func (s Suite) RunAll(t *testing.T, url string) int {
	t.Helper()
	dir := t.TempDir()
	if out, err := s.script.command(t, "server", "--url", url, "--suite", "all", "--output-dir", dir).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	results, err := filepath.Glob(dir + "/server-*-????-??-??T*/checks.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range results {
		t.Run(resultName.FindStringSubmatch(file)[1], func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			checkPassed(t, text)
		})
	}
	return len(results)
}

// resultName finds the name of a scenario in that of its result.
var resultName = regexp.MustCompile(`/server-([^/]+)-\d{4}-\d\d-\d\dT[^/]*/checks.json$`)

// checkPassed looks at the checks of a scenario.
func checkPassed(t testing.TB, checks []byte) {
	t.Helper()
	text := string(checks)
	if strings.Contains(text, `"FAILURE"`) || strings.Contains(text, `"WARNING"`) || !strings.Contains(text, `"SUCCESS"`) {
		t.Error(text)
	}
}

// script is a program for Node.js.
type script struct{ node, file string }

// find returns a program. Without it the test skips.
func find(t testing.TB, name string) script {
	t.Helper()
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := filepath.Glob(dir + "/node-linux-*/bin/node")
	if err != nil {
		t.Fatal(err)
	}
	s := script{file: dir + "/" + name}
	if _, err := os.Stat(s.file); err != nil || len(nodes) != 1 {
		t.Skip("the programs that test the Model Context Protocol are not installed; scripts/conformance/fetch.sh installs them")
	}
	s.node = nodes[0]
	return s
}

// command returns a command that leaves its files in a directory of the test.
func (s script) command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.node, append([]string{s.file}, args...)...)
	cmd.Dir = t.TempDir()
	return cmd
}

package mcptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Inspector is a client of the Model Context Protocol for the command line, by the
// protocol's authors. Each call is a process of its own, and so a session.
type Inspector struct {
	script script
	target []string
	// Env is added to the environment of a server that the inspector starts.
	Env []string
	// Header is added to each request to a URL, as "Name: value".
	Header string
}

// NewInspector returns a client of a server, which is a URL or a command. Without the
// program the test skips.
func NewInspector(t testing.TB, target ...string) *Inspector {
	t.Helper()
	return &Inspector{script: find(t, "@modelcontextprotocol/inspector-cli/build/index.js"), target: target}
}

// Tool calls a tool, and decodes its result.
func (i *Inspector) Tool(t testing.TB, name string, args map[string]any) (result struct {
	Content           []struct{ Text string }
	StructuredContent map[string]any
	IsError           bool
},
) {
	t.Helper()
	flags := []string{"--tool-name", name}
	for key, value := range args {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "--tool-arg", key+"="+string(text))
	}
	i.Call(t, &result, "tools/call", flags...)
	return result
}

// Call sends one request, and decodes the result.
func (i *Inspector) Call(t testing.TB, result any, method string, flags ...string) {
	t.Helper()
	if err := i.Try(t, result, method, flags...); err != nil {
		t.Fatalf("%s %q: %v", method, flags, err)
	}
}

// Try sends one request that may fail.
func (i *Inspector) Try(t testing.TB, result any, method string, flags ...string) error {
	t.Helper()
	args := append(slices.Clone(i.target), "--method", method)
	if i.Header != "" {
		args = append(args, "--header", i.Header)
	}
	cmd := i.script.command(t, append(args, flags...)...)
	cmd.Dir = filepath.Dir(i.script.file) // it looks for its package there
	cmd.Env = append(os.Environ(), i.Env...)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(out, result)
}

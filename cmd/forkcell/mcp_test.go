package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forkcell/forkcell/internal/api"
)

// stdio is the program as a client of the Model Context Protocol starts it.
type stdio struct {
	*testing.T
	*sdk.ClientSession
	dir string
}

// newStdio makes a project and two cells, and starts the program on one of them.
func newStdio(t *testing.T, args ...string) *stdio {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "shop"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "shop", "app.conf"), []byte("greeting = hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := &stdio{T: t, dir: dir}
	for _, name := range []string{"other", "shopper"} {
		if _, errs, err := finish(t, s.program("init", name, "--from", dir+"/shop")); err != nil {
			t.Fatal(err, errs)
		}
	}
	s.serve(args...)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// serve starts the program, and connects to it.
func (s *stdio) serve(args ...string) {
	s.Helper()
	cmd := s.program(append([]string{"mcp"}, args...)...)
	cmd.Dir = s.dir
	cmd.Stderr = os.Stderr
	var err error
	s.ClientSession, err = sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(s.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stdio) program(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(s.Context()), "/proc/self/exe", args...)
	cmd.Args[0] = "forkcell"
	cmd.Env = append(os.Environ(), "FORKCELL_HOME="+filepath.Join(s.dir, "state"))
	return cmd
}

// call calls a tool, and returns the document and the text of its result.
func (s *stdio) call(tool string, args map[string]any) (doc map[string]any, text string, failed bool) {
	s.Helper()
	res, err := s.CallTool(s.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return nil, err.Error(), true
	}
	if res.StructuredContent != nil {
		raw, err := json.Marshal(res.StructuredContent)
		if err == nil {
			err = json.Unmarshal(raw, &doc)
		}
		if err != nil {
			s.Fatal(err)
		}
	}
	for _, c := range res.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			text += t.Text
		}
	}
	return doc, text, res.IsError
}

// do calls a tool that succeeds.
func (s *stdio) do(tool string, args map[string]any) map[string]any {
	s.Helper()
	doc, text, failed := s.call(tool, args)
	if failed {
		s.Fatalf("%s: %s", tool, text)
	}
	return doc
}

// fails calls a tool that is refused with a code.
func (s *stdio) fails(code api.Code, tool string, args map[string]any) {
	s.Helper()
	doc, text, failed := s.call(tool, args)
	if !failed || doc["code"] != string(code) {
		s.Errorf("%s %v: %v %v %s", tool, args, failed, doc, text)
	}
}

// TestMCPStdioStory drives the program as a coding agent does: it tries a change,
// undoes it, and forks.
func TestMCPStdioStory(t *testing.T) {
	t.Parallel()
	s := newStdio(t, "--cell", "shopper")
	run := s.do("run", map[string]any{"command": []string{"sh", "-c", "sed -i s/hello/hi/ app.conf; cat app.conf"}})
	if run["stdout"] != "greeting = hi\n" || run["cell"] != "shopper" || run["decision"] != "pending" {
		t.Errorf("%v", run)
	}
	s.do("policy_explain", map[string]any{"path": "/etc/passwd"})
	s.do("policy_explain", map[string]any{"policy": "offline", "path": "/etc/passwd"})
	s.do("receipt_verify", nil)
	s.do("restore", map[string]any{"reason": "not that"})
	s.do("fork", map[string]any{"name": "shopper-try", "n": 2})
	s.do("run", map[string]any{"cell": "shopper-try-1", "command": []string{"true"}})
	list, _ := json.Marshal(s.do("cell_list", nil))
	if text := string(list); strings.Contains(text, "other") || !strings.Contains(text, "shopper-try-2") {
		t.Error(text)
	}
	out, errs, err := finish(t, s.program("log", "shopper", "--json"))
	if err != nil || !strings.Contains(out, "mcp of ") {
		t.Errorf("%v %s%s", err, out, errs)
	}
}

// TestMCPStdioBounds asks for what a model on stdin may not have.
func TestMCPStdioBounds(t *testing.T) {
	t.Parallel()
	s := newStdio(t, "--cell", "shopper")
	command := []string{"true"}
	for _, cell := range []string{"other", "shop", "shoppe", "../other"} {
		s.fails(api.CodeNotFound, "run", map[string]any{"cell": cell, "command": command})
		s.fails(api.CodeNotFound, "cell_remove", map[string]any{"cell": cell})
	}
	out, errs, err := finish(t, s.program("run", "other", "--json", "--", "sh", "-c", "echo foreign; unshare --mount true; true"))
	var foreign api.RunResult
	if err != nil || json.Unmarshal([]byte(out), &foreign) != nil {
		t.Fatal(err, out, errs)
	}
	for tool, args := range map[string]map[string]any{
		"diff": {"to": "other"}, "wait_for_text": {"run": foreign.RunID, "text": "foreign"}, "receipt_show": {"receipt": foreign.ReceiptID},
		"read_file": {"cell": "other", "path": "app.conf"}, "policy_suggest": {"cell": "other"}, "receipt_verify": {"receipt": foreign.ReceiptID},
		"restore": {"checkpoint": foreign.CheckpointAfter}, "exec": {"cell": "other", "command": command}, "pause": {"cell": "other"}, "resume": {"cell": "other"}, "events": {"run": foreign.RunID},
	} {
		s.fails(api.CodeNotFound, tool, args)
	}
	for _, uri := range []string{"runs/" + foreign.RunID, "runs/" + foreign.RunID + "/logs/stdout", "receipts/" + foreign.ReceiptID, "cells/other"} {
		if res, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "forkcell://" + uri}); err == nil {
			t.Errorf("%s: %+v", uri, res.Contents[0])
		}
	}
	s.fails(api.CodeForbidden, "fork", map[string]any{"name": "free"})
	s.fails(api.CodeForbidden, "fork", map[string]any{"name": "shoppers"})
	s.fails(api.CodeForbidden, "cell_create", map[string]any{"name": "shopper-etc", "source": map[string]any{"path": "/etc"}})
	s.fails(api.CodeForbidden, "receipt_verify", map[string]any{"all": true})
	for tool, args := range map[string]map[string]any{
		"accept": {}, "reject": {}, "apply": {},
	} {
		if _, text, failed := s.call(tool, args); !failed || !strings.Contains(text, "unknown tool") {
			t.Errorf("%s: %v %s", tool, failed, text)
		}
	}
	if _, text, failed := s.call("race", map[string]any{"command": command, "n": 1, "accept": true}); !failed || !strings.Contains(text, "accept") {
		t.Errorf("race: %v %s", failed, text)
	}
	s.do("race", map[string]any{"command": command, "n": 2})
	for name, value := range map[string]any{
		"accept_on_success": true, "as_root": true, "allow_degraded": true, "root": "/", "credentials": map[string]any{"a": map[string]any{"value": "b"}},
	} {
		if _, text, failed := s.call("run", map[string]any{"command": command, name: value}); !failed || !strings.Contains(text, name) {
			t.Errorf("%s: %v %s", name, failed, text)
		}
	}
}

// TestMCPStdioDecide lets the model decide: it writes to the directory of the cell.
func TestMCPStdioDecide(t *testing.T) {
	t.Parallel()
	s := newStdio(t, "--cell", "shopper", "--allow-decide")
	doc := s.do("run", map[string]any{"command": []string{"sh", "-c", "echo new > NOTES"}})
	s.do("accept", map[string]any{"run": doc["run_id"], "apply": true, "reason": "tests pass"})
	if text, err := os.ReadFile(filepath.Join(s.dir, "shop", "NOTES")); err != nil || string(text) != "new\n" {
		t.Errorf("%q %v", text, err)
	}
	if _, said, failed := s.call("apply", map[string]any{"to": t.TempDir()}); !failed || !strings.Contains(said, `unexpected additional properties ["to"]`) {
		t.Errorf("another directory: %v %s", failed, said)
	}
}

// TestMCPFrom takes the cell of a directory: it is made once, and brought up to date.
func TestMCPFrom(t *testing.T) {
	t.Parallel()
	s := &stdio{T: t, dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(s.dir, "shop"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one\n", "two\n"} {
		if err := os.WriteFile(filepath.Join(s.dir, "shop", "file"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s.serve("--from", "shop")
		if run := s.do("run", map[string]any{"command": []string{"cat", "file"}}); run["stdout"] != text || run["cell"] != "shop" {
			t.Errorf("%v", run)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	cmd := s.program("mcp")
	cmd.Dir = t.TempDir()
	if _, errs, err := finish(t, cmd); err == nil || !strings.Contains(errs, "--from DIR makes one") {
		t.Errorf("%v %s", err, errs)
	}
}

// TestMCPStdioCeiling sends a policy that allows more than that of the cell. What both
// allow is enforced, also in cells that the model makes.
func TestMCPStdioCeiling(t *testing.T) {
	t.Parallel()
	s := newStdio(t, "--cell", "other")
	const wide = "version: 1\nfilesystem_policy:\n  read_only: [/usr, /etc, /opt]\n"
	narrow := filepath.Join(s.dir, "narrow.yaml")
	if err := os.WriteFile(narrow, []byte("version: 1\nfilesystem_policy:\n  read_only: [/usr, /etc]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	look := map[string]any{"command": []string{"sh", "-c", "test ! -e /opt && test -e /usr"}, "policy": wide}
	if run := s.do("run", map[string]any{"command": []string{"test", "-e", "/opt"}, "policy": wide}); run["outcome"] != "succeeded" {
		t.Errorf("%v", run) // the cell's own policy allows it
	}
	if _, errs, err := finish(t, s.program("policy", "apply", "other", narrow)); err != nil {
		t.Fatal(errs)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s.serve("--cell", "other")
	s.do("fork", map[string]any{"name": "other-a"})
	for _, cell := range []string{"other", "other-a"} {
		look["cell"] = cell
		if run := s.do("run", look); run["outcome"] != "succeeded" {
			t.Errorf("%v", run)
		}
	}
	s.do("start", map[string]any{"policy": wide})
	if end := s.do("exec", map[string]any{"command": look["command"]}); end["exit_code"] != 0.0 {
		t.Errorf("%v", end)
	}
	s.do("stop", map[string]any{"grace": "0s"})
}

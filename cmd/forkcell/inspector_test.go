package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/testkit/mcptest"
)

// agent is a cell and a client of the Model Context Protocol that may run commands in
// it, and decide nothing.
type agent struct {
	*testing.T
	*mcptest.Inspector
}

// TestInspector drives a cell by a client of others, over stdin and stdout and over
// HTTP. Each call is a session of its own.
func TestInspector(t *testing.T) {
	t.Parallel()
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		s := newStdio(t, "--cell", "shopper") // a session that stays open beside the others
		a := &agent{t, mcptest.NewInspector(t, "forkcell", "mcp", "--cell", "shopper")}
		a.Env = []string{"FORKCELL_HOME=" + filepath.Join(s.dir, "state")}
		a.story()
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "app.conf"), []byte("greeting = hello\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		s := &stdio{T: t, dir: t.TempDir()}
		out, errs, err := finish(t, s.program("token", "create", "--name", "agent", "--scope", "run", "--cells", "shopper", "--json"))
		var made struct{ Token string }
		if err != nil || json.Unmarshal([]byte(out), &made) != nil {
			t.Fatal(err, errs)
		}
		a := &agent{t, mcptest.NewInspector(t, "http://"+s.listen("--allow-source", dir)+"/mcp")}
		a.Header = "Authorization: Bearer " + made.Token
		a.do("cell_create", map[string]any{"name": "shopper", "source": map[string]any{"path": dir}})
		a.story()
	})
}

// listen starts a daemon on loopback, and returns its address.
func (s *stdio) listen(args ...string) string {
	s.Helper()
	cmd := s.program(append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			s.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			s.Error("the daemon ended with", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		s.Fatal(err, line)
	}
	return address
}

// do calls a tool that succeeds, and returns the document and the text of its result.
func (a *agent) do(tool string, args map[string]any) (doc map[string]any, text string) {
	a.Helper()
	res := a.Tool(a, tool, args)
	if len(res.Content) != 1 || res.IsError {
		a.Fatalf("%s %v: %+v", tool, args, res)
	}
	return res.StructuredContent, res.Content[0].Text
}

// says calls a tool whose text has a word in it.
func (a *agent) says(word, tool string, args map[string]any) {
	a.Helper()
	if _, text := a.do(tool, args); !strings.Contains(text, word) {
		a.Errorf("%s %v has no %q: %s", tool, args, word, text)
	}
}

// story is what an agent does on a day.
func (a *agent) story() {
	a.Helper()
	a.lists()
	a.do("cell_create", map[string]any{"name": "shopper-empty", "source": map[string]any{"empty": true}})
	run, _ := a.do("run", map[string]any{"cell": "shopper", "command": script("sed -i s/hello/hi/ app.conf; unshare --mount true; true")})
	if run["outcome"] != "succeeded" || run["changed_files"] != 1.0 {
		a.Errorf("%v", run)
	}
	a.says("+greeting = hi", "diff", map[string]any{"cell": "shopper"})
	a.says("unshare", "events", map[string]any{"cell": "shopper", "action": "denied"})
	a.do("receipt_verify", map[string]any{"receipt": run["receipt_id"]})
	var receipt struct{ Contents []struct{ Text string } }
	a.Call(a, &receipt, "resources/read", "--uri", "forkcell://receipts/"+run["receipt_id"].(string))
	if len(receipt.Contents) != 1 || !json.Valid([]byte(receipt.Contents[0].Text)) {
		a.Errorf("%v", receipt)
	}
	a.do("fork", map[string]any{"cell": "shopper", "name": "shopper-try"})
	a.do("restore", map[string]any{"cell": "shopper", "reason": "not that"})
	a.says("hello", "read_file", map[string]any{"cell": "shopper", "path": "app.conf"})
	a.live("shopper-try")
	race, _ := a.do("race", map[string]any{"cell": "shopper", "command": script("echo $FORKCELL_ATTEMPT > n"), "n": 2, "judge": []string{"cat", "n"}, "best": "score"})
	if race["winner"] != 2.0 {
		a.Errorf("%v", race)
	}
}

// lists looks at the tools: those that decide are missing, and calling one fails.
func (a *agent) lists() {
	a.Helper()
	var list struct{ Tools []struct{ Name string } }
	a.Call(a, &list, "tools/list")
	sessions := 0 // a daemon has tools for them
	for _, t := range list.Tools {
		if strings.HasPrefix(t.Name, "session_") || t.Name == "agent_list" {
			sessions++
		}
		if strings.HasSuffix(t.Name, "_accept") || strings.HasSuffix(t.Name, "_publish") || t.Name == "accept" || t.Name == "reject" || t.Name == "apply" {
			a.Errorf("%s is there", t.Name)
		}
	}
	if len(list.Tools)-sessions != 27 || sessions != 0 && sessions != 9 {
		a.Errorf("%d tools", len(list.Tools))
	}
	if err := a.Try(a, &list, "tools/call", "--tool-name", "accept", "--tool-arg", "cell=shopper"); err == nil || !strings.Contains(err.Error(), "unknown tool") {
		a.Errorf("accept: %v", err)
	}
}

// live makes a cell live and works in it. It stays live between the calls.
func (a *agent) live(cell string) {
	a.Helper()
	a.do("start", map[string]any{"cell": cell})
	end, _ := a.do("exec", map[string]any{"cell": cell, "command": script("echo the server is ready; exit 3")})
	if end["exit_code"] != 3.0 {
		a.Errorf("%v", end)
	}
	a.do("wait_for_text", map[string]any{"cell": cell, "text": "is ready", "timeout": "30s"})
	a.do("write_file", map[string]any{"cell": cell, "path": "notes", "content": "remember the milk\n"})
	a.says("milk", "read_file", map[string]any{"cell": cell, "path": "notes"})
	a.says("notes:1", "search_files", map[string]any{"cell": cell, "pattern": "m.lk"})
	a.says("notes", "list_files", map[string]any{"cell": cell})
	a.do("stop", map[string]any{"cell": cell, "grace": "0s"})
}

func script(text string) []string { return []string{"sh", "-c", text} }

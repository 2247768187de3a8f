package daemon_test

import (
	"encoding/base64"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forkcell/forkcell/internal/api"
)

// TestMCPFiles reads, lists and searches files of an idle and of a live cell, and
// writes to the live one.
func TestMCPFiles(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.write("src/main.go", "package main\n\nfunc main() {}\n")
	d.write("src/long.txt", strings.Repeat("ä", 20_000))
	d.write("src/binary", "main\x00\xff")
	d.cell("demo")
	m := d.connect(nil)
	write := map[string]any{"cell": "demo", "path": "src/new.go", "content": "// main again\n", "mode": "0755"}
	m.fails(api.CodeNotStarted, "write_file", write)
	m.looks()
	m.do(nil, "start", map[string]any{"cell": "demo"})
	m.looks()
	var info api.FileInfo
	m.do(&info, "write_file", write)
	if info.Mode != "0755" || info.Size != 14 {
		t.Errorf("%+v", info)
	}
	m.do(nil, "write_file", map[string]any{"cell": "demo", "path": "bytes", "content_base64": base64.StdEncoding.EncodeToString([]byte("\xff\x00"))})
	var part struct {
		ContentBase64 []byte `json:"content_base64"`
	}
	m.do(&part, "read_file", map[string]any{"cell": "demo", "path": "bytes"})
	if string(part.ContentBase64) != "\xff\x00" {
		t.Errorf("%q", part.ContentBase64)
	}
	m.fails(api.CodeUsage, "write_file", map[string]any{"cell": "demo", "path": "x", "content": "a", "content_base64": "Yg=="})
	m.do(nil, "stop", map[string]any{"cell": "demo", "grace": "0s"})
}

// looks reads the files that TestMCPFiles made.
func (m *model) looks() {
	m.Helper()
	var part struct {
		Content string
		Size    int64
		Next    *int64
	}
	whole := ""
	for offset := int64(0); ; offset = *part.Next {
		part.Next = nil
		m.do(&part, "read_file", map[string]any{"cell": "demo", "path": "src/long.txt", "offset": offset})
		if whole += part.Content; part.Next == nil {
			break
		}
	}
	if whole != strings.Repeat("ä", 20_000) || part.Size != 40_000 {
		m.Errorf("%d of %d bytes", len(whole), part.Size)
	}
	said := m.do(nil, "list_files", map[string]any{"cell": "demo", "depth": 3})
	if !strings.Contains(said, "src/main.go") || !strings.Contains(said, "hello.txt") {
		m.Error(said)
	}
	var found struct {
		Matches []struct {
			Path string
			Line int
			Text string
		}
		Truncated bool
	}
	m.do(&found, "search_files", map[string]any{"cell": "demo", "pattern": `\bmain\b`})
	if len(found.Matches) != 2 || found.Matches[1].Path != "src/main.go" || found.Matches[1].Line != 3 || found.Matches[1].Text != "func main() {}" || found.Truncated {
		m.Errorf("%+v", found)
	}
	m.do(&found, "search_files", map[string]any{"cell": "demo", "pattern": ".", "path": "src", "include": "*.go", "limit": 1})
	if len(found.Matches) != 1 || !found.Truncated {
		m.Errorf("%+v", found)
	}
	m.fails(api.CodeUsage, "search_files", map[string]any{"cell": "demo", "pattern": "("})
	m.fails(api.CodeNotFound, "read_file", map[string]any{"cell": "demo", "path": "none"})
	m.fails(api.CodeNotFound, "search_files", map[string]any{"cell": "demo", "pattern": ".", "path": "none"})
}

// TestMCPFollow waits for text in the output of a live cell and of a run, and shows
// events.
func TestMCPFollow(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	m := d.connect(nil)
	m.fails(api.CodeNotFound, "wait_for_text", map[string]any{"cell": "demo", "text": "x"})
	var run api.RunAnswer
	m.do(&run, "run", map[string]any{"cell": "demo", "command": []string{"sh", "-c", "echo one two; echo three >&2; unshare --mount true"}})
	var res struct {
		Found    bool
		TimedOut bool `json:"timed_out"`
		Output   string
	}
	m.do(&res, "wait_for_text", map[string]any{"cell": "demo", "text": "e tw"})
	if !res.Found {
		t.Errorf("%+v", res)
	}
	m.do(&res, "wait_for_text", map[string]any{"cell": "demo", "run": run.RunID, "stream": "stderr", "text": "four"})
	if res.Found || res.TimedOut || !strings.HasPrefix(res.Output, "three\n") {
		t.Errorf("%+v", res)
	}
	said := m.do(nil, "events", map[string]any{"cell": "demo", "action": "denied"})
	if !strings.Contains(said, "unshare") {
		t.Error(said)
	}
	for stream, want := range map[string]string{"stdout": "one two\n", "stderr": "three\n"} {
		doc, err := m.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "forkcell://runs/" + run.RunID + "/logs/" + stream})
		if err != nil || !strings.HasPrefix(doc.Contents[0].Text, want) {
			t.Errorf("%v %+v", err, doc)
		}
	}
	m.do(nil, "start", map[string]any{"cell": "demo"})
	m.do(nil, "exec", map[string]any{"cell": "demo", "command": []string{"sh", "-c", "echo ready"}})
	m.do(&res, "wait_for_text", map[string]any{"cell": "demo", "text": "ready\n"})
	if !res.Found {
		t.Errorf("%+v", res)
	}
	m.do(&res, "wait_for_text", map[string]any{"cell": "demo", "text": "never", "timeout": "50ms"})
	if res.Found || !res.TimedOut {
		t.Errorf("%+v", res)
	}
	m.do(nil, "stop", map[string]any{"cell": "demo", "grace": "0s"})
}

// TestMCPRace makes attempts, and accepts the winner.
func TestMCPRace(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	m := d.connect(nil)
	var won api.RaceResult
	said := m.do(&won, "race", map[string]any{
		"cell": "demo", "command": []string{"sh", "-c", "echo $FORKCELL_ATTEMPT > score"}, "n": 2, "judge": []string{"cat", "score"}, "best": "score", "accept": true,
	})
	if won.DecisionID == "" || won.Winner == nil || *won.Winner != 2 || !strings.HasPrefix(said, "attempt 2 has won, and cell demo has its workspace") {
		t.Errorf("%+v %s", won, said)
	}
	m.fails(api.CodeNotFound, "race", map[string]any{"cell": "none", "command": []string{"true"}, "n": 1})
	m.fails(api.CodeUsage, "race", map[string]any{"cell": "demo", "command": []string{"true"}, "n": 1, "timeout": "soon"})
}

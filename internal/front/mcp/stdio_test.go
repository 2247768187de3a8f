package mcp

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestStdioGoesOn: a line that is no message gets an error, and what comes after it an
// answer.
func TestStdioGoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line string
		code int
		id   string
	}{
		"no JSON":          {"hello", -32700, "null"},
		"half a document":  {`{"jsonrpc":"2.0","id":7,`, -32700, "null"},
		"two documents":    {`{} {}`, -32700, "null"},
		"no message":       {`{"id":7}`, -32600, "7"},
		"odd id":           {`{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`, -32600, "null"},
		"old version":      {`{"jsonrpc":"1.0","id":"a","method":"ping"}`, -32600, `"a"`},
		"list of messages": {`[{"jsonrpc":"2.0","id":7,"method":"ping"}]`, -32600, "null"},
		"number":           {"7", -32600, "null"},
		"too long":         {strings.Repeat(" ", 17<<20) + "1", -32700, "null"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := converse(t, "\n"+c.line+"\n\r\n"+`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\r\n")
			got := map[string]int{}
			for _, line := range lines {
				var answer struct {
					ID    json.RawMessage
					Error struct{ Code int }
				}
				if err := json.Unmarshal([]byte(line), &answer); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				got[string(answer.ID)] = answer.Error.Code
			}
			if len(got) != 2 || got[c.id] != c.code || got["1"] != 0 {
				t.Errorf("answers %q", lines)
			}
		})
	}
}

// converse sends text to a server, and returns the two lines that it answers.
func converse(t *testing.T, text string) (lines []string) {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go func() {
		server := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		_ = server.Run(t.Context(), Stdio(in, out))
		_ = out.Close()
	}()
	go func() { _, _ = io.WriteString(toServer, text) }()
	r := bufio.NewReader(fromServer)
	for range 2 {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	_ = toServer.Close()
	return lines
}

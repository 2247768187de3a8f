package daemon_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	cellfiles "github.com/forkcell/forkcell/internal/sandbox/incell/files"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
)

// hostileFile is a file of a workspace. The program in a live cell that answers requests
// for files is under the control of whoever has written it: its text is what it answers,
// again and again if it ends with a star.
const hostileFile = ".hostile"

// hostileHelper is the program in a cell, if the cell has the file.
func hostileHelper() (code int, is bool) {
	if !supervise.IsCarrier(os.Args) || len(os.Args) < 2 || os.Args[1] != cellfiles.Verb {
		return 0, false
	}
	text, err := os.ReadFile(hostileFile)
	if err != nil {
		return 0, false
	}
	once, again := bytes.CutSuffix(text, []byte("*"))
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for {
		_, err := out.Write(once)
		if err != nil || !again {
			break
		}
	}
	_ = out.Flush()
	return cellfiles.Done, true
}

// TestHostileHelper: the program in a live cell answers what a command in the cell wants:
// lists and lines without an end, names that no kernel takes or that are elsewhere. Each
// request ends with a problem, although the answer does not end.
func TestHostileHelper(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	entry := func(name string) string {
		line, err := json.Marshal(api.FileInfo{Path: name, Type: "file", Mode: "0644"})
		if err != nil {
			t.Fatal(err)
		}
		return string(line) + "\n"
	}
	lists := map[string]string{
		"long names":         entry(strings.Repeat("x", 60_000)) + "*",
		"many names":         entry(strings.Repeat("x", 4_000)) + "*",
		"short names":        entry("x") + "*",
		"a line without end": "x*",
		"other words":        "[]\n*",
		"a name above":       entry("../../etc/passwd"),
		"a name between":     entry("a/../../b"),
		"a whole path":       entry("/etc/passwd"),
		"a size below 0":     `{"path":"x","type":"file","mode":"0644","size":-1}` + "\n",
		"another type":       `{"path":"x","type":"\u001b[2J","mode":"0644"}` + "\n",
	}
	for what, text := range lists {
		d.hostile(text)
		p := d.problem(500, api.CodeCopy, "POST", files+"/list", api.ListFilesRequest{Path: "sub", Depth: 3})
		if p.Detail != "malformed answer from the cell" {
			t.Errorf("%s: %+v", what, p)
		}
	}
	for what, text := range map[string]string{"nothing": "", "other words": "[]", "a size below 0": `{"type":"file","mode":"0644","size":-1}`, "much": strings.Repeat("{", 1<<20)} {
		d.hostile(text)
		for path, body := range map[string]any{"/stat": api.FileRequest{Path: "a"}, "/mkdir": api.FileRequest{Path: "a"}, "/move": api.MoveFileRequest{From: "a", To: "b"}} {
			if p := d.problem(500, api.CodeCopy, "POST", files+path, body); p.Detail != "malformed answer from the cell" {
				t.Errorf("%s of %s: %+v", what, path, p)
			}
		}
	}
	for _, text := range []string{`{"event":"created","path":"../../x"}`, `{"event":"renamed","path":"x","from":"/etc/x"}`, `{"event":"evil","path":"x"}`, `{"event":"created","path":"` + strings.Repeat("x", 5000) + `"}`} {
		d.hostile(text + "\n*")
		if r := d.send("POST", files+"/watch", api.WatchBody{Path: "sub"}); bytes.Contains(r.body, []byte(`"path"`)) || !bytes.Contains(r.body, []byte("malformed answer")) {
			t.Errorf("%s: %d %s", text, r.status, r.body[:min(len(r.body), 400)])
		}
	}
	d.exec("demo", "rm", hostileFile)
	d.put("honest", "text")
}

// hostile gives the program in the cell demo another answer.
func (d *testDaemon) hostile(text string) {
	d.Helper()
	var res api.ExecAnswer
	body := api.ExecBody{Command: []string{"sh", "-c", "cat > " + hostileFile}, Stdin: text}
	d.want(200, &res, "POST", "/v1/cells/demo/exec", body)
	if res.ExitCode != 0 {
		d.Fatal(res)
	}
}

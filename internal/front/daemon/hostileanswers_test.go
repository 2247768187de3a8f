package daemon_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.yaml.in/yaml/v4"

	"github.com/forkcell/forkcell/internal/api/answer"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/cli"
	"github.com/forkcell/forkcell/internal/front/daemon"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal/terminaltest"
)

// drawing is a text that begins a line of its own, fills the clipboard, rings the bell,
// colours, and reverses the direction of what follows.
const drawing = "evil\nFORGED\x1b]52;c;ZXZpbA==\a\u009b31m\x1b[31m\u202e\u2028\r"

// hostileDaemon answers each request of the API with a document of the right form, whose
// texts draw on the terminal.
type hostileDaemon struct {
	t          *testing.T
	schemas    map[string]any
	operations []hostileOperation
	// everywhere: also the names and ids draw. Otherwise only texts that may be anything.
	everywhere bool
	// refusing: every answer is a problem.
	refusing bool
}

type hostileOperation struct {
	method  string
	path    *regexp.Regexp
	status  int
	content map[string]any
}

// document is a value of JSON or YAML.
type document = map[string]any

func newHostileDaemon(t *testing.T) *hostileDaemon {
	t.Helper()
	text, err := os.ReadFile("../../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct{ Content map[string]any }
		}
		Components struct{ Schemas map[string]any }
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	d := &hostileDaemon{t: t, schemas: doc.Components.Schemas}
	for path, methods := range doc.Paths {
		expression := "^" + regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$"
		for method, operation := range methods {
			for status, code := range map[string]int{"101": 101, "200": 200, "201": 201, "202": 202, "204": 204} {
				if r, ok := operation.Responses[status]; ok {
					d.operations = append(d.operations, hostileOperation{strings.ToUpper(method), regexp.MustCompile(expression), code, r.Content})
				}
			}
		}
	}
	slices.SortFunc(d.operations, func(a, b hostileOperation) int { return a.status - b.status })
	return d
}

func (d *hostileDaemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.refusing {
		d.problem(w)
		return
	}
	for _, o := range d.operations {
		if o.method == r.Method && o.path.MatchString(r.URL.Path) && (o.status != http.StatusSwitchingProtocols || r.Header.Get("Upgrade") != "") {
			d.answer(w, r, o)
			return
		}
	}
	d.problem(w)
}

func (d *hostileDaemon) problem(w http.ResponseWriter) {
	doc := d.of("Problem").(document) //nolint:forcetypeassert // it is an object
	doc["status"] = http.StatusConflict
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusConflict)
	_, _ = w.Write(d.text(doc))
}

func (d *hostileDaemon) answer(w http.ResponseWriter, r *http.Request, o hostileOperation) {
	accept := r.Header.Get("Accept")
	switch {
	case o.status == http.StatusSwitchingProtocols:
		d.socket(w, r)
	case o.status == http.StatusNoContent:
		w.WriteHeader(o.status)
	case o.content[accept] != nil && accept == "application/jsonl":
		w.Header().Set("Content-Type", accept)
		_, _ = w.Write(append(d.text(d.event()), '\n'))
	case o.content[accept] != nil && accept == "text/event-stream":
		w.Header().Set("Content-Type", accept)
		d.stream(w, r.URL.Path)
	case o.content["application/json"] != nil:
		media, _ := o.content["application/json"].(document)
		doc := d.sample("", media["schema"], 0)
		if page, ok := doc.(document); ok && page["next"] != nil {
			page["next"] = nil // a list that ends
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(o.status)
		_, _ = w.Write(d.text(doc))
	default:
		w.Header().Set("Content-Type", accept)
		_, _ = w.Write([]byte(drawing))
	}
}

// stream sends the events that a race or the journal may have.
func (d *hostileDaemon) stream(w http.ResponseWriter, path string) {
	send := func(name string, doc any) {
		_, _ = w.Write(slices.Concat([]byte("id: 1\nevent: "+name+"\ndata: "), d.text(doc), []byte("\n\n")))
	}
	if strings.HasSuffix(path, "/race") {
		send("attempt", d.of("RaceAttempt"))
		send("judged", d.of("RaceAttempt"))
		send("result", d.of("RaceResult"))
		return
	}
	send("event", d.event())
	send("problem", d.of("Problem"))
}

// socket begins a command, and ends it with a result.
func (d *hostileDaemon) socket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"forkcell.exec.v1"}})
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	for _, doc := range []document{
		{"type": "started", "run_id": d.string("run_id"), "exec_id": d.string("exec_id")},
		{"type": "result", "result": d.of("RunResult"), "ended_by": d.string("ended_by"), "exit_code": 1},
	} {
		if conn.Write(r.Context(), websocket.MessageText, d.text(doc)) != nil {
			return
		}
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
}

// event is a record of a journal.
func (d *hostileDaemon) event() document {
	return document{
		"time": 1, "class_uid": 4001, "metadata": document{"sequence": 1}, "activity_name": drawing, "message": drawing,
		"unmapped":     document{"forkcell": document{"prev": strings.Repeat("0", 64), "cell": drawing, "run": drawing}, "prev": strings.Repeat("0", 64), "cell": drawing, "run": drawing},
		"actor":        document{"process": document{"file": document{"path": drawing}, "cmd_line": drawing}},
		"dst_endpoint": document{"hostname": drawing, "ip": drawing, "port": 1}, "firewall_rule": document{"name": drawing},
		"finding_info": document{"title": drawing, "desc": drawing}, "status_detail": drawing,
	}
}

func (d *hostileDaemon) of(schema string) any {
	return d.sample("", document{"$ref": "#/components/schemas/" + schema}, 0)
}

// sample returns a value of a schema.
func (d *hostileDaemon) sample(field string, schema any, depth int) any {
	s, _ := schema.(document)
	if ref, ok := s["$ref"].(string); ok {
		return d.sample(field, d.schemas[ref[strings.LastIndexByte(ref, '/')+1:]], depth+1)
	}
	if any, ok := s["oneOf"].([]any); ok {
		return d.sample(field, any[0], depth+1)
	}
	kind, _ := s["type"].(string)
	if several, ok := s["type"].([]any); ok {
		kind, _ = several[0].(string)
	}
	switch {
	case depth > 12:
		return nil
	case kind == "string" && s["format"] == "date-time":
		return "2026-01-02T03:04:05Z"
	case kind == "string" && s["contentEncoding"] == "base64":
		return base64.StdEncoding.EncodeToString([]byte(drawing))
	case kind == "string" && strings.HasSuffix(field, "_base64"):
		return base64.StdEncoding.EncodeToString([]byte(drawing + "\xff"))
	case kind == "string":
		return d.string(field)
	case kind == "integer", kind == "number":
		return 1
	case kind == "boolean":
		return true
	case kind == "array":
		return []any{d.sample(field, s["items"], depth+1)}
	}
	out := document{}
	properties, _ := s["properties"].(document)
	for name, of := range properties {
		out[name] = d.sample(name, of, depth+1)
	}
	if more, ok := s["additionalProperties"].(document); ok {
		out[drawing] = d.sample(field, more, depth+1)
	}
	return out
}

// string returns the text of a field.
func (d *hostileDaemon) string(field string) string {
	switch {
	case field == "ttl" || field == "idle_timeout":
		return "1h0m0s" // another text is no answer
	case d.everywhere:
		return drawing
	}
	known := map[string]string{"name": "demo", "id": "run_01k9", "word": strings.Repeat("ab", 32), "line": "line", "title": "demo", "": drawing}
	return known[answer.Grammar(field)]
}

func (d *hostileDaemon) text(doc any) []byte {
	text, err := json.Marshal(doc)
	if err != nil {
		d.t.Error(err)
	}
	return text
}

// TestHostileAnswers: whatever a daemon answers, no command writes a character to the
// terminal that moves the cursor, colours, or cannot be seen, and no text begins a line
// of its own.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	d := newHostileDaemon(t)
	daemon := httptest.NewServer(d)
	t.Cleanup(daemon.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{"source/f": "one", "target/f": "one", "policy.yaml": "version: 1\n", "key.pem": "none"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []string{"everywhere", "free texts", "refusals"} {
		d.everywhere, d.refusing = mode == "everywhere", mode == "refusals"
		reached := 0
		for _, line := range hostileLines() {
			for _, more := range []string{"", " --json"} {
				code, text := hostileCall(t, daemon.URL, dir, line, more)
				if code == 0 {
					reached++
				}
				if at := strings.IndexFunc(text, draws); at >= 0 {
					t.Errorf("%s: forkcell %s%s writes %q", mode, line, more, text[at:min(at+60, len(text))])
				}
				if strings.Contains("\n"+text, "\nFORGED") && (more != "" || !manyLines.MatchString(line)) {
					t.Errorf("%s: forkcell %s%s begins a line with a text of the daemon:\n%s", mode, line, more, text)
				}
			}
		}
		t.Logf("%s: %d command lines ended with 0", mode, reached)
		if mode == "free texts" && reached < 110 {
			t.Errorf("only %d command lines could read an answer", reached)
		}
	}
}

// draws reports whether a character is none of text.
func draws(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || r == '\u202e' || r == '\u2028'
}

// hostileCall runs a command line against a daemon, and returns all that it printed.
func hostileCall(t *testing.T, url, dir, line, more string) (code int, text string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	args := []string{"--url", url, "--home", filepath.Join(dir, "home")}
	for _, word := range strings.Fields(line) {
		if word == "--" {
			args = append(args, strings.Fields(more)...)
			more = ""
		}
		args = append(args, strings.Replace(word, "DIR", dir, 1))
	}
	args = append(args, strings.Fields(more)...)
	programs := cli.Programs{Archives: true, Remote: daemon.Remote, UI: daemon.UI}
	if printsOutput.MatchString(line) {
		code, text = hostileTerminal(t, func(streams cli.Streams) int { return cli.Main(ctx, args, streams, openNone, programs, "v0-test") })
	} else {
		var out bytes.Buffer
		code = cli.Main(ctx, args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, openNone, programs, "v0-test")
		text = out.String()
	}
	if code == 2 && strings.Contains(text, "unknown flag") {
		t.Errorf("forkcell %s: %s", line, text)
	}
	return code, text
}

// openNone opens no home: the command lines here talk to a daemon.
func openNone(string, cli.Mode, caller.Caller) (cli.Engine, func() error, error) {
	return nil, nil, errors.New("there is no home")
}

// hostileTerminal runs a command on a terminal, and returns what that got, but for
// colours and the ends of lines.
func hostileTerminal(t *testing.T, command func(cli.Streams) int) (code int, text string) {
	t.Helper()
	master, slave, err := terminaltest.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	seen := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(terminal.Output(master))
		seen <- all
	}()
	code = command(cli.Streams{In: strings.NewReader(""), Out: slave, Err: slave})
	if err := slave.Close(); err != nil {
		t.Error(err)
	}
	text = string(<-seen)
	text = regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(text, "")
	return code, strings.ReplaceAll(text, "\r\n", "\n")
}

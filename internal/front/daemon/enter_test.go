package daemon_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/local"
)

// entry is a request that enters a live cell.
type entry struct {
	path string // behind that of the cell
	body any
	// protocol is that of a WebSocket.
	protocol string
	media    string // type of the body; "" is JSON
}

// entries are requests for the operations that enter a live cell, by their names: they
// execute something in it, or read or write its files.
func entries() map[string]entry {
	file := api.FileRequest{Path: "x"}
	port := entry{path: "/ports/8080/"}
	return map[string]entry{
		"exec":        {path: "/exec", body: api.ExecBody{Command: []string{"true"}}},
		"execSocket":  {path: "/exec?command=true", protocol: execProtocol},
		"attach":      {path: "/exec/EXEC", protocol: execProtocol},
		"sendMessage": {path: "/send", body: map[string]any{"text": "hello"}},
		"agentSocket": {path: "/agent", protocol: execProtocol},
		"forwardPort": {path: "/forward?port=8080", protocol: execProtocol},
		"eval":        {path: "/eval", body: api.EvalRequest{Code: "1"}},
		"branch":      {path: "/branch", body: api.BranchBody{Name: "a-branch"}},
		"readFile":    {path: "/files?path=hello.txt"},
		"writeFile":   {path: "/files?path=x", body: "text", media: "application/octet-stream"},
		"removeFile":  {path: "/files?path=hello.txt"},
		"copyFiles":   {path: "/files/copy?path=x&name=x", body: "", media: "application/vnd.forkcell.copy"},
		"listFiles":   {path: "/files/list", body: api.ListFilesRequest{Path: "."}},
		"makeDir":     {path: "/files/mkdir", body: file},
		"moveFile":    {path: "/files/move", body: api.MoveFileRequest{From: "hello.txt", To: "x"}},
		"statFile":    {path: "/files/stat", body: file},
		"watchFiles":  {path: "/files/watch", body: api.WatchBody{Path: "."}},
		"getPort":     port, "putPort": port, "postPort": port, "patchPort": port, "deletePort": port, "headPort": port, "optionsPort": port,
	}
}

// outside are the operations about one cell that do not enter it when it is live: they read
// records and states, end it, stop it for a while, capture it, or start it anew with what
// their caller gives.
var outside = strings.Fields(`accept acceptSession apply cancelCellRun choose createCheckpoint diff export forkCell getAccepted getCell getCellRun
	getCellRunLogs getDisk getLog getPolicy getSession getTimeline listCellRunEvents listCellRuns listCheckpoints listProcesses listTurns pause
	planRun publishSession refresh reject removeCell removeSession reportPublication restore resume rewindSession run runSocket setPolicy start stop undeleteCell
	stopSession undo updateCell verifyCell`)

// TestEveryEntry enters a live cell by every operation, as every kind of bounded caller. A
// caller who may not give what the cell was started with, or whose ceiling its policy
// exceeds, is refused, and others are not. A new operation must be in one of both lists.
func TestEveryEntry(t *testing.T) {
	t.Parallel()
	config, granted := t.TempDir(), t.TempDir()
	d := newRemote(t, api.ServeOptions{Operator: api.Operator{Config: config}})
	grantPolicy := "version: 1\nfilesystem_policy:\n  read_only: [/usr, /bin, /lib, /lib64, /etc, " + granted + "]\n  read_write: []\n"
	var valid api.PolicyResult
	d.want(200, &valid, "POST", "/v1/policies/validate", api.ValidateBody{Policy: grantPolicy})
	grants := "grants: [{policy: \"sha256:" + valid.PolicyHash + "\", path: " + granted + "}]\n"
	if err := os.WriteFile(filepath.Join(config, "config.yaml"), []byte(grants), 0o600); err != nil {
		t.Fatal(err)
	}
	values := map[string]api.CredentialValue{"token": {Value: "secret"}}
	starts := map[string]api.RunSettings{
		"a-plain":      {},
		"a-granted":    {Policy: grantPolicy},
		"a-credential": {Policy: credentialPolicy, Credentials: values},
	}
	callers := boundedCallers(d)
	callers["run"] = d.token(api.TokenBody{Name: "runner", Scopes: []string{"run"}})
	callers["run with credential"] = d.token(api.TokenBody{Name: "spender", Scopes: []string{"run"}, Credentials: []string{"token"}})
	callers["run with policy"] = d.token(api.TokenBody{Name: "narrow", Scopes: []string{"run"}, Policy: "version: 1\nfilesystem_policy: { read_only: [/usr/bin] }\n"})
	starter := d.token(api.TokenBody{Name: "starter", Scopes: []string{"run"}})
	// who may enter which cell
	may := map[string][]string{
		"a-plain":      {"run", "run and decide", "run with credential", "admin with cells", "admin with quota"},
		"a-granted":    {},
		"a-credential": {"run with credential"},
		"a-own":        {"starter", "run with credential"},
	}
	// What only the command line gives, or an unbounded token, nobody else enters.
	const host = "version: 1\nnetwork_policies:\n  host:\n    endpoints: [{ host: host.test, port: 443 }]\n    binaries: [{ path: \"/**\" }]\n"
	here := map[string]api.RunOptions{
		"a-ro":       {ReadOnly: api.Texts{granted}},
		"a-root":     {AsRoot: true, Root: "host-overlay"},
		"a-resolved": {Policy: &api.PolicyFile{Name: "resolved", Text: []byte(host)}, Network: api.NetworkRequest{Resolve: []string{"host.test:443=127.0.0.1:1"}}},
	}
	if os.Geteuid() != 0 { // only root changes the system's files
		delete(here, "a-root")
	}
	for name := range here {
		may[name] = []string{}
	}
	execs := map[string]string{}
	start := func(by *testDaemon, name string, s api.RunSettings) {
		d.cell(name)
		if name == "a-own" { // the policy of the cell bounds what a token starts
			d.want(200, nil, "PUT", "/v1/cells/a-own/policy", api.ValidateBody{Policy: credentialPolicy})
		}
		by.want(200, nil, "POST", "/v1/cells/"+name+"/start", api.StartBody{RunSettings: s})
		t.Cleanup(func() { d.send("POST", "/v1/cells/"+name+"/stop", nil) })
		_, execs[name] = d.open("/v1/cells/" + name + "/exec?command=sleep&command=1000")
	}
	for name, s := range starts {
		start(d, name, s)
	}
	for name, o := range here {
		d.startHere(name, o)
		_, execs[name] = d.open("/v1/cells/" + name + "/exec?command=sleep&command=1000")
	}
	start(starter, "a-own", api.RunSettings{Credentials: values})
	callers["starter"] = starter
	may["a-plain"] = append(may["a-plain"], "starter")
	var doc struct {
		Paths map[string]map[string]struct {
			ID string `json:"operationId"`
		}
	}
	d.want(200, &doc, "GET", "/openapi.json", nil)
	list := entries()
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if !strings.Contains(path, "{cell}") && !strings.Contains(path, "{session}") {
				continue
			}
			e, enters := list[op.ID]
			if enters == slices.Contains(outside, op.ID) {
				t.Errorf("%s %s (%s): say in one of the lists whether it enters a live cell", method, path, op.ID)
			}
			if !enters || strings.Contains(path, "{session}") { // a session is entered by attach
				continue
			}
			for cell, allowed := range may {
				for who, as := range callers {
					at := "/v1/cells/" + cell + strings.ReplaceAll(e.path, "EXEC", execs[cell])
					refused := as.refusesEntry(strings.ToUpper(method), at, e)
					if want := !slices.Contains(allowed, who); refused != want {
						t.Errorf("%s %s as %s: refused %t, want %t", method, at, who, refused, want)
					}
				}
			}
		}
	}
}

// startHere makes a cell and starts it as the command line does.
func (d *testDaemon) startHere(name string, o api.RunOptions) {
	d.Helper()
	d.cell(name)
	e, release, err := local.Open(d.home, local.Write, caller.Caller{Actor: func() string { return "operator" }})
	if err != nil {
		d.Fatal(err)
	}
	_, err = e.Start(d.Context(), api.StartRequest{Cell: name, RunOptions: o})
	if err := errors.Join(err, release()); err != nil {
		d.Fatal(name, err)
	}
	d.Cleanup(func() { d.send("POST", "/v1/cells/"+name+"/stop", nil) })
}

// refusesEntry reports whether a request to enter a live cell is refused for who sends it.
func (d *testDaemon) refusesEntry(method, path string, e entry) bool {
	d.Helper()
	if e.protocol != "" {
		ctx, cancel := context.WithTimeout(d.Context(), time.Minute)
		defer cancel()
		conn, resp, err := websocket.Dial(ctx, d.site+path, &websocket.DialOptions{HTTPClient: d.client, Subprotocols: []string{e.protocol}})
		switch {
		case err == nil:
			return conn.CloseNow() != nil
		case resp == nil:
			d.Fatal(err)
		}
		return isRefusal(d.TB, resp)
	}
	text, ok := e.body.(string)
	if !ok && e.body != nil {
		data, err := json.Marshal(e.body)
		if err != nil {
			d.Fatal(err)
		}
		text = string(data)
	}
	ctx, cancel := context.WithTimeout(d.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, d.site+path, strings.NewReader(text))
	if err != nil {
		d.Fatal(err)
	}
	req.Header.Set("Content-Type", cmp.Or(e.media, "application/json"))
	resp, err := d.client.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer resp.Body.Close()
	return isRefusal(d.TB, resp)
}

// isRefusal reports whether an answer says that the caller may not. Those that go on for
// long are successes.
func isRefusal(t testing.TB, resp *http.Response) bool {
	t.Helper()
	switch {
	case resp.StatusCode < 400:
		return false
	case resp.StatusCode == http.StatusForbidden:
		return true
	case resp.Request.Method == http.MethodHead: // its answer has no body
		return resp.StatusCode == http.StatusUnprocessableEntity
	}
	var p api.Problem
	if data, err := io.ReadAll(resp.Body); err == nil && json.Unmarshal(data, &p) == nil {
		return p.Code == api.CodeCeiling
	}
	return false
}

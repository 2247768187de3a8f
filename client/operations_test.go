package client_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/client"
)

// leftOut are the operations without a method, and why.
var leftOut = map[string]string{
	"metrics":           "Prometheus reads it",
	"docs":              "people read it",
	"agentSocket":       "the command line uses it for terminals",
	"checkAgent":        "it succeeds only with an agent on the host; its error is looked at",
	"runSocket":         "the command line uses it for terminals; run takes input too",
	"getAccepted":       "the command line uses it to write back",
	"reportPublication": "the command line uses it after it has published",
	"planRun":           "the command line uses it for dry runs",
	"forwardPort":       "the command line uses it; ports answer with HTTP",
	"copyFiles":         "the command line uses it for cp",
	"getCellRun":        "it is getRun",
	"cancelCellRun":     "it is cancelRun",
	"getCellRunLogs":    "it is getRunLogs",
	"listRunEvents":     "it is listEvents of a run",
	"listCellRunEvents": "it is listEvents of a run",
}

// TestEveryOperation calls the methods, and finds every operation of the API in the
// daemon's journal of requests.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	c := connect(t)
	operateCell(t, c)
	operateDaemon(t, c)
	operateLive(t, c)
	wanted := slices.Collect(maps.Keys(leftOut))
	if _, err := exec.LookPath("python3"); err == nil {
		operateBranches(t, c)
	} else {
		t.Log("without python3 nothing is branched")
		wanted = append(wanted, "branch", "eval")
	}
	operateFiles(t, c)
	operateEvidence(t, c)
	operateSessions(t, c)
	slices.Sort(wanted)
	var missing []string
	// A request is recorded after its answer.
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		done := succeeded(t, c)
		missing = nil
		for id, route := range operations(t) {
			if !done[route] {
				missing = append(missing, id)
			}
		}
		if slices.Sort(missing); slices.Equal(missing, wanted) {
			return
		}
	}
	t.Errorf("no method for %q, want none for %q", missing, wanted)
}

// checker returns a function that ends a test after a call that failed.
func checker(t *testing.T) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// did is checker for calls whose value is used.
func did[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// all returns the items of a list.
func all[T any](t *testing.T, seq func(func(T, error) bool)) (items []T) {
	t.Helper()
	for item, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	return items
}

func operateDaemon(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, ok := t.Context(), checker(t)
	ok(c.Health(ctx))
	ok(c.Ready(ctx))
	ok(c.Version(ctx))
	ok(c.Key(ctx))
	ok(c.GC(ctx, client.GC{DryRun: true}))
	ok(c.Usage(ctx))
	ok(c.Disk(ctx))
	if checks := did[[]client.Check](t)(c.Doctor(ctx)); len(checks) == 0 || checks[0].Name == "" || checks[0].Status == "" {
		t.Errorf("%+v", checks)
	}
	made := did[*client.TokenCreated](t)(c.Tokens.Create(ctx, client.CreateToken{Name: "every", Scopes: []string{"read"}}))
	if list := all(t, c.Tokens.List(ctx)); made.Token == "" || !slices.ContainsFunc(list, func(info client.TokenInfo) bool { return info.ID == made.ID }) {
		t.Errorf("%+v", list)
	}
	if err := c.Tokens.Revoke(ctx, made.ID); err != nil {
		t.Error(err)
	}
	all(t, c.Policies.Presets(ctx))
	ok(c.Policies.Validate(ctx, "offline"))
	ok(c.Policies.Explain(ctx, client.Explain{Policy: "offline", Host: "example.com:443"}))
}

// operateCell changes an idle cell.
func operateCell(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, ok := t.Context(), checker(t)
	removeAfter(t, c, "every")
	cell := did[*client.Cell](t)(c.Cells.CreateFrom(ctx, project(t), client.CreateCell{Name: "every"}))
	ok(c.Cells.Get(ctx, "every"))
	life, none := "1h", ""
	ok(cell.Update(ctx, client.Update{Labels: map[string]string{"team": "a"}, TTL: &life}))
	if found := all(t, c.Cells.List(ctx, client.CellFilter{Labels: map[string]string{"team": "a"}})); len(found) != 1 || found[0].Name != "every" {
		t.Errorf("%+v", found)
	}
	name := "every-renamed"
	info := did[*client.CellInfo](t)(cell.Update(ctx, client.Update{Name: &name, TTL: &none, Labels: map[string]string{}}))
	if cell.Name != name || info.TTL != 0 || len(info.Labels) != 0 {
		t.Errorf("%s: %+v", cell.Name, info)
	}
	ok(cell.Policy(ctx))
	ok(cell.SetPolicy(ctx, "offline"))
	ok(cell.Checkpoint(ctx, client.Checkpoint{Name: "one"}))
	run := client.Run{Command: client.Shell("echo hi > hello.txt")}
	ok(cell.Run(ctx, run))
	ok(c.Policies.Suggest(ctx, client.Suggest{Cell: cell.Name}))
	ok(cell.Diff(client.States{}).Changes(ctx))
	ok(cell.Reject(ctx, client.Reject{}))
	ok(cell.Run(ctx, run))
	ok(cell.Accept(ctx, client.Accept{}))
	ok(cell.Apply(ctx, client.Apply{}))
	ok(cell.Undo(ctx, client.Undo{}))
	ok(cell.Restore(ctx, client.Restore{Checkpoint: "one"}))
	ok(cell.Refresh(ctx, client.Refresh{}))
	ok(cell.Verify(ctx, client.Verify{}))
	ok(cell.Disk(ctx))
	if log := all(t, cell.Log(ctx)); len(log) < 3 {
		t.Errorf("%+v", log)
	}
	if states := all(t, cell.Checkpoints(ctx)); len(states) < 3 {
		t.Errorf("%+v", states)
	}
	ok(cell.Fork(ctx, client.Fork{Name: "every-fork"}))
	kept := did[*client.RaceAnswer](t)(cell.Race(ctx, client.Race{Command: []string{"true"}, N: 2, Keep: true}))
	chosen := did[*client.RaceAnswer](t)(cell.Choose(ctx, client.Choose{Attempt: kept.Attempts[1].Cell, Reason: "the second"}))
	if best := chosen.Best(); best == nil || best.Attempt != 2 || chosen.DecisionID == "" {
		t.Errorf("%+v", chosen)
	}
	archive := did[io.ReadCloser](t)(cell.Export(ctx, client.ExportState{}))
	upload := did[*client.Upload](t)(c.Upload(ctx, archive))
	_ = archive.Close()
	copied := did[*client.Cell](t)(c.Cells.Create(ctx, client.CreateCell{Name: "every-copy", Source: &client.Source{Upload: upload.Upload}}))
	if copied.Created.Root != did[*client.StatusResult](t)(cell.Status(ctx)).Root {
		t.Error("the copy differs")
	}
	if err := copied.Remove(ctx, false); err != nil {
		t.Error(err)
	}
	if back := did[*client.CellInfo](t)(copied.Undelete(ctx)); back.Name != copied.Name {
		t.Errorf("%+v is back", back)
	}
	if err := copied.Remove(ctx, false, client.NotKept()); err != nil {
		t.Error(err)
	}
}

// operateLive uses a live cell.
func operateLive(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, ok := t.Context(), checker(t)
	cell := newCell(t, c, "every-live")
	ok(cell.Start(ctx, client.Start{}))
	ok(cell.Exec(ctx, client.Exec{Command: []string{"true"}}))
	_, paused := cell.Pause(ctx, client.Pause{})
	_, resumed := cell.Resume(ctx, client.Resume{})
	for _, err := range []error{paused, resumed} {
		// An ordinary user may have no freezer.
		if err != nil && !client.HasCode(err, "freezer") {
			t.Error(err)
		}
	}
	ok(cell.Pause(ctx, client.Pause{FSOnly: true}))
	ok(cell.Resume(ctx, client.Resume{}))
	first := did[*client.ExecSocket](t)(cell.OpenExec(ctx, client.OpenExec{Command: []string{"cat"}}))
	if list := all(t, cell.Processes(ctx)); len(list) == 0 {
		t.Error("no processes")
	}
	second := did[*client.ExecSocket](t)(cell.Attach(ctx, first.ID, 0, 0))
	if err := second.CloseInput(); err != nil {
		t.Error(err)
	}
	ok(first.Wait())
	operatePorts(t, cell)
	ok(cell.Stop(ctx, client.Stop{}))
}

// operateBranches makes a template, and uses branches of it.
func operateBranches(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, ok := t.Context(), checker(t)
	cell := newCell(t, c, "every-warm")
	ok(cell.WarmPython(ctx, client.WarmPython{Modules: []string{"json"}}, client.Start{Warm: &client.Warm{ReadyTimeout: "50s"}}))
	branch := did[*client.BranchAnswer](t)(cell.Branch(ctx, client.Branch{Name: "every-try", N: 2}))
	if branch.Source != cell.Name || len(branch.Cells()) != 2 {
		t.Errorf("%+v", branch)
	}
	race := did[*client.RaceAnswer](t)(cell.Race(ctx, client.Race{Warm: true, Attempts: []client.RaceCommand{{Code: "1 / 0"}, {Code: "2"}}}))
	if best := race.Best(); best == nil || best.Attempt != 2 {
		t.Errorf("%+v", race)
	}
	first, second := branch.Cells()[0], branch.Cells()[1]
	ok(first.Eval(ctx, client.Eval{Code: "x = 41"}))
	if res := did[*client.EvalResult](t)(first.Eval(ctx, client.Eval{Code: "x + 1"})); string(res.ValueJSON) != "42" {
		t.Errorf("%+v", res)
	}
	if res := did[*client.EvalResult](t)(second.Eval(ctx, client.Eval{Code: "x"})); res.Error == nil || res.Error.Type != "NameError" {
		t.Errorf("%+v", res)
	}
	if _, err := cell.Branch(ctx, client.Branch{From: "base"}); !client.HasCode(err, "no_memory") {
		t.Error(err)
	}
	if _, err := first.Checkpoint(ctx, client.Checkpoint{Memory: true}); !client.HasCode(err, "runtime") {
		t.Error(err)
	}
	if _, err := cell.Branch(ctx, client.Branch{}, client.IfMatch(1<<40)); !client.HasCode(err, "changed") {
		t.Error(err)
	}
	for _, c := range []*client.Cell{first, second, cell} {
		ok(c.Stop(ctx, client.Stop{}))
	}
}

// operatePorts sends requests to a port where nothing listens.
func operatePorts(t *testing.T, cell *client.Cell) {
	t.Helper()
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		req := did[*http.Request](t)(http.NewRequestWithContext(t.Context(), method, "/a%2Fb?c=d", http.NoBody))
		resp := did[*http.Response](t)(cell.Fetch(8080, req))
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadGateway || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %s, %v", method, resp.Status, resp.Header)
		}
	}
}

// operateFiles uses every verb of files.
func operateFiles(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, ok := t.Context(), checker(t)
	cell := newCell(t, c, "every-files")
	ok(cell.Start(ctx, client.Start{}))
	defer func() { _ = cell.Close(ctx) }()
	files := cell.Files()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	for event, err := range files.Watch(watching, "", true) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Event == "started" {
			ok(files.Write(ctx, "new.txt", strings.NewReader("0123"), 0o600))
		} else if event.Path == "new.txt" {
			break
		}
	}
	ok(files.Mkdir(ctx, "a/b"))
	ok(files.Move(ctx, "new.txt", "a/moved.txt"))
	if info := did[*client.FileInfo](t)(files.Stat(ctx, "a/moved.txt")); info.Mode != "0600" || info.Size != 4 {
		t.Errorf("%+v", info)
	}
	if list := did[[]client.FileInfo](t)(files.List(ctx, "", 2)); len(list) != 4 {
		t.Errorf("%+v", list)
	}
	part := did[io.ReadCloser](t)(files.Open(ctx, "a/moved.txt", 2))
	defer part.Close()
	if text := did[[]byte](t)(io.ReadAll(part)); string(text) != "23" {
		t.Errorf("%q", text)
	}
	if err := files.Remove(ctx, "a", true); err != nil {
		t.Error(err)
	}
	if _, err := files.Read(ctx, "a/moved.txt"); !client.HasCode(err, "not_found") {
		t.Error(err)
	}
}

// operateEvidence reads what a run leaves.
func operateEvidence(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, ok := t.Context(), checker(t)
	cell := newCell(t, c, "every-evidence")
	begun := did[*client.RunStarted](t)(cell.Begin(ctx, client.Run{Command: []string{"sleep", "1000"}}))
	ok(c.Runs.Cancel(ctx, begun.RunID))
	if err := c.Runs.Output(ctx, begun.RunID, false, true, io.Discard); err != nil {
		t.Error(err)
	}
	r := did[*client.RunAnswer](t)(cell.Run(ctx, client.Run{Command: []string{"true"}, RunSettings: client.RunSettings{Wait: "30s"}}))
	ok(c.Runs.Get(ctx, r.RunID))
	all(t, cell.Runs(ctx))
	all(t, c.Runs.List(ctx))
	all(t, c.Receipts.List(ctx, cell.Name))
	ok(c.Receipts.Get(ctx, r.ReceiptID))
	ok(c.Receipts.Bundle(ctx, r.ReceiptID))
	ok(c.Receipts.Verify(ctx, client.VerifyReceipts{Receipt: r.ReceiptID}))
	all(t, c.Decisions.List(ctx, "", ""))
	all(t, c.Graph(ctx))
	all(t, c.Events.List(ctx, client.EventFilter{Run: r.RunID}))
}

// succeeded returns the routes of the requests that the daemon answered with success,
// passed on to a port where nothing listens, or refused because the host cannot do it.
func succeeded(t *testing.T, c *client.Client) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, e := range all(t, c.Events.List(t.Context(), client.EventFilter{Class: "api_activity"})) {
		var record struct {
			API struct {
				Operation string `json:"operation"`
				Response  struct {
					Code int `json:"code"`
				} `json:"response"`
			} `json:"api"`
		}
		if err := json.Unmarshal(e.Data, &record); err != nil {
			t.Fatal(err)
		}
		if code := record.API.Response.Code; code < http.StatusBadRequest || code == http.StatusBadGateway || code == http.StatusUnprocessableEntity {
			found[record.API.Operation] = true
		}
	}
	return found
}

// operations returns the operations of the daemon: the route of each id.
func operations(t *testing.T) map[string]string {
	t.Helper()
	socket := filepath.Join(os.Getenv("FORKCELL_HOME"), "api.sock")
	direct := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	defer direct.CloseIdleConnections()
	resp, err := direct.Get("http://localhost/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var doc struct {
		Paths map[string]map[string]struct {
			ID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for path, methods := range doc.Paths {
		for method, operation := range methods {
			found[operation.ID] = strings.ToUpper(method) + " " + path
		}
	}
	return found
}

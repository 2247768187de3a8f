package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// fakeEngine records what it is asked and answers with what a test put in.
type fakeEngine struct {
	opened int
	mode   Mode
	home   string
	got    any   // the last request
	err    error // the answer of every call
	none   bool  // together with err: no result either

	openErr error
	backend string
	run     *api.RunResult
	output  string // what a run writes to stdout
	stdio   engine.Stdio
	verify  *api.VerifyResult
	info    api.CellInfo
	diff    *engine.DiffResult
	checks  []driver.Check
	names   []string
	imports []api.Progress // the progress of an init
	here    string         // the cell of the working directory,
	below   string         // and where in its source that is

	exec     *api.ExecResult
	execID   string // of a command that begins
	sessions []api.SessionInfo
	followed string // what a live cell has printed
	events   []event.Record
	policies *api.PolicyDiff
	caller   caller.Caller
	race     []api.RaceEvent // the last one has the result
}

func (f *fakeEngine) open(home string, mode Mode, caller caller.Caller) (Engine, func() error, error) {
	if f.openErr != nil {
		return nil, nil, f.openErr
	}
	f.opened++
	f.home, f.mode, f.caller = home, mode, caller
	return f, func() error { return nil }, nil
}

// call runs one command line against the fake.
func call(t *testing.T, f *fakeEngine, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(t.Context(), args, Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, f.open, Programs{}, "v0-test")
	return code, out.String(), errs.String()
}

func answer[T any](f *fakeEngine, request any, result *T) (*T, error) {
	f.got = request
	if f.none || (f.err != nil && result == nil) {
		return nil, f.err
	}
	if result == nil {
		result = new(T)
	}
	return result, f.err
}

func (f *fakeEngine) Choose(_ context.Context, r api.ChooseRequest) (*api.RaceResult, error) {
	return answer[api.RaceResult](f, r, nil)
}

func (f *fakeEngine) Race(_ context.Context, r api.RaceRequest, events func(api.RaceEvent)) (*api.RaceResult, error) {
	for _, e := range f.race {
		events(e)
	}
	f.got = r
	if len(f.race) == 0 {
		return nil, f.err
	}
	return f.race[len(f.race)-1].Result, f.err
}

func (f *fakeEngine) CountChanges(context.Context, api.DiffRequest) (int, error) { return 0, f.err }

func (f *fakeEngine) CellRuns(context.Context, string) ([]api.RunInfo, error) { return nil, nil }

func (f *fakeEngine) Init(_ context.Context, r api.InitRequest) (*api.InitResult, error) {
	for _, p := range f.imports {
		f.caller.Progress(p)
	}
	return answer[api.InitResult](f, r, nil)
}

func (f *fakeEngine) Refresh(_ context.Context, r api.RefreshRequest) (*api.RefreshResult, error) {
	return answer[api.RefreshResult](f, r, nil)
}

func (f *fakeEngine) Disk(_ context.Context, name string) (*api.DiskResult, error) {
	return &api.DiskResult{
		Cells: []api.CellDisk{{
			Cell: "demo", OwnBytes: 8192, SharedBytes: 4096, TotalBytes: 12288,
			Areas: map[string]int64{"workspace": 8192, "home": 0},
		}},
		Home: map[string]int64{"layers": 16384, "evidence": 4096}, TotalBytes: 20480,
	}, nil
}

func (f *fakeEngine) Fork(_ context.Context, r api.ForkRequest) (*api.ForkResult, error) {
	return answer[api.ForkResult](f, r, nil)
}

func (f *fakeEngine) Run(_ context.Context, r api.RunRequest, stdio engine.Stdio) (*api.RunResult, error) {
	f.stdio = stdio
	_, _ = io.WriteString(stdio.Out, f.output)
	return answer(f, r, f.run)
}

func (f *fakeEngine) Plan(_ context.Context, r api.RunRequest) (*api.RunPlan, error) {
	return answer[api.RunPlan](f, r, nil)
}

func (f *fakeEngine) Status(_ context.Context, name string) (*api.StatusResult, error) {
	return answer(f, name, &api.StatusResult{CellInfo: api.CellInfo{Name: name, Backend: f.backend}})
}

func (f *fakeEngine) Checkpoint(_ context.Context, name, label string) (*api.CheckpointResult, error) {
	return answer[api.CheckpointResult](f, []string{name, label}, nil)
}

func (f *fakeEngine) CheckpointMemory(_ context.Context, name, label string) (*api.CheckpointResult, error) {
	return answer[api.CheckpointResult](f, []string{name, label}, nil)
}

func (f *fakeEngine) Restore(_ context.Context, r api.RestoreRequest) (*api.MoveResult, error) {
	return answer[api.MoveResult](f, r, nil)
}

func (f *fakeEngine) Reject(_ context.Context, name, run, reason string) (*api.MoveResult, error) {
	return answer[api.MoveResult](f, []string{name, run, reason}, nil)
}

func (f *fakeEngine) Accept(_ context.Context, r api.AcceptRequest) (*api.AcceptResult, error) {
	return answer[api.AcceptResult](f, r, nil)
}

func (f *fakeEngine) Apply(_ context.Context, r api.ApplyRequest) (*api.ApplyResult, error) {
	return answer[api.ApplyResult](f, r, nil)
}

func (f *fakeEngine) Undo(_ context.Context, req api.UndoRequest) (*api.ApplyResult, error) {
	return answer[api.ApplyResult](f, req, nil)
}

func (f *fakeEngine) Publish(_ context.Context, r api.PublishRequest) (*api.PublishResult, error) {
	return answer[api.PublishResult](f, r, nil)
}

func (f *fakeEngine) Diff(_ context.Context, r api.DiffRequest) (*engine.DiffResult, error) {
	return answer(f, r, f.diff)
}

func (f *fakeEngine) Export(_ context.Context, r api.ExportRequest) (*api.ExportResult, error) {
	return answer[api.ExportResult](f, r, nil)
}

func (f *fakeEngine) ListMatching(_ context.Context, filter api.CellFilter) ([]api.CellInfo, error) {
	f.got = filter
	if f.info.Name == "" {
		return nil, f.err
	}
	return []api.CellInfo{f.info}, f.err
}

func (f *fakeEngine) Log(_ context.Context, name string) ([]api.LogEntry, error) {
	f.got = name
	return nil, f.err
}

func (f *fakeEngine) Logs(_ context.Context, name, run string) (io.ReadCloser, io.ReadCloser, error) {
	f.got = []string{name, run}
	if f.err != nil {
		return nil, nil, f.err
	}
	if f.output != "" {
		return io.NopCloser(strings.NewReader(f.output)), io.NopCloser(strings.NewReader("")), nil
	}
	return io.NopCloser(strings.NewReader("out\xff")), io.NopCloser(strings.NewReader("err")), nil
}

func (f *fakeEngine) Graph(context.Context) ([]api.GraphNode, error) { return nil, f.err }

func (f *fakeEngine) Update(_ context.Context, r api.UpdateRequest) (*api.CellInfo, error) {
	return answer(f, r, &f.info)
}

func (f *fakeEngine) Rename(_ context.Context, name, to string) error {
	f.got = []string{name, to}
	return f.err
}

func (f *fakeEngine) RemoveCells(_ context.Context, r api.RemoveRequest) error {
	f.got = []any{r.Cells, r.Force}
	return f.err
}

func (f *fakeEngine) Undelete(_ context.Context, name string) (*api.CellInfo, error) {
	return answer(f, name, &f.info)
}

func (f *fakeEngine) RemoveAll(_ context.Context, names []string, force bool) error {
	f.got = []any{names, force}
	return f.err
}

func (f *fakeEngine) Verify(_ context.Context, name, chk string, all bool) (*api.VerifyResult, error) {
	return answer(f, []any{name, chk, all}, f.verify)
}

func (f *fakeEngine) Usage(_ context.Context, prefix string) (*api.UsageResult, error) {
	return answer[api.UsageResult](f, prefix, nil)
}

func (f *fakeEngine) Expire(_ context.Context, dryRun bool) (*api.ExpireResult, error) {
	return answer[api.ExpireResult](f, dryRun, nil)
}

func (f *fakeEngine) GC(_ context.Context, r api.GCRequest) (*api.GCResult, error) {
	return answer[api.GCResult](f, r, nil)
}

func (f *fakeEngine) ReceiptList(_ context.Context, name string) ([]api.ReceiptInfo, error) {
	f.got = name
	return nil, f.err
}

func (f *fakeEngine) Receipt(_ context.Context, id, name string, latest bool) (*api.ReceiptDoc, error) {
	doc := &api.ReceiptDoc{Markdown: []byte("Decision: `restored`"), JSON: []byte(`{"a":1}`), Envelope: []byte(`{"payload":""}`)}
	return answer(f, []any{id, name, latest}, doc)
}

func (f *fakeEngine) ReceiptVerify(_ context.Context, id, name string, all bool, key string) (*api.ReceiptVerifyResult, error) {
	return answer[api.ReceiptVerifyResult](f, []any{id, name, all, key}, nil)
}

func (f *fakeEngine) BundleVerify(_ context.Context, file, key string) (*api.ReceiptVerifyResult, error) {
	return answer[api.ReceiptVerifyResult](f, []any{file, key}, nil)
}

func (f *fakeEngine) ReceiptExport(_ context.Context, id, output string) (int64, error) {
	f.got = []string{id, output}
	return 7, f.err
}

func (f *fakeEngine) Decisions(_ context.Context, name, run string) ([]api.DecisionInfo, error) {
	f.got = []string{name, run}
	return []api.DecisionInfo{{DecisionID: "dec_1"}, {DecisionID: "dec_2"}}, f.err
}

func (f *fakeEngine) Decision(_ context.Context, id string) (*api.DecisionInfo, error) {
	return answer[api.DecisionInfo](f, id, nil)
}

func (f *fakeEngine) Events(_ context.Context, q api.EventQuery, fn func(event.Record) error) error {
	f.got = q
	return f.sendEvents(fn)
}

func (f *fakeEngine) FollowEvents(_ context.Context, name string, last int, fn func(event.Record) error) error {
	f.got = []any{name, last}
	return f.sendEvents(fn)
}

func (f *fakeEngine) sendEvents(fn func(event.Record) error) error {
	for _, rec := range f.events {
		if err := fn(rec); err != nil {
			return err
		}
	}
	return f.err
}

func (f *fakeEngine) Policy(_ context.Context, name string) (*api.PolicyResult, error) {
	return answer(f, name, &api.PolicyResult{Cell: name, PolicyHash: "h", Policy: []byte(`{}`), Text: policy.Default().Canonical()})
}

func (f *fakeEngine) ApplyPolicy(_ context.Context, name string, file api.PolicyFile, given *api.LiveGrant) (*api.PolicyApplied, error) {
	return answer[api.PolicyApplied](f, []any{name, file, given.Credentials, given.Addresses}, nil)
}

func (f *fakeEngine) SuggestPolicy(_ context.Context, name, run string) (*api.PolicySuggestion, error) {
	return answer(f, []any{name, run}, &api.PolicySuggestion{Cell: name, Policy: []byte(`{}`), Text: []byte("version: 1\n")})
}

func (f *fakeEngine) DiffPolicies(_ context.Context, a, b engine.PolicyRef) (*api.PolicyDiff, error) {
	return answer(f, []engine.PolicyRef{a, b}, f.policies)
}

func (f *fakeEngine) ExplainPolicy(_ context.Context, ref engine.PolicyRef, q engine.PolicyQuestion) (*policy.Explanation, error) {
	return answer(f, []any{ref, q}, &policy.Explanation{Allowed: true, Rule: "rule", Reason: "reason"})
}

func (f *fakeEngine) Start(_ context.Context, r api.StartRequest) (*api.StartResult, error) {
	return answer[api.StartResult](f, r, nil)
}

func (f *fakeEngine) Stop(_ context.Context, r api.StopRequest) (*api.RunResult, error) {
	return answer(f, r, f.run)
}

func (f *fakeEngine) Pause(_ context.Context, name api.PauseRequest) (*api.PauseResult, error) {
	return answer[api.PauseResult](f, name, nil)
}

func (f *fakeEngine) Resume(_ context.Context, name api.ResumeRequest) (*api.PauseResult, error) {
	return answer[api.PauseResult](f, name, nil)
}

func (f *fakeEngine) Branch(_ context.Context, r api.BranchRequest) (*api.BranchResult, error) {
	return answer(f, r, &api.BranchResult{})
}

func (f *fakeEngine) Turns(_ context.Context, name string) (*api.TurnList, error) {
	return answer(f, name, &api.TurnList{})
}

func (f *fakeEngine) Rewind(_ context.Context, r api.RewindRequest) (*api.RewindResult, error) {
	return answer(f, r, &api.RewindResult{})
}

func (f *fakeEngine) Eval(_ context.Context, r api.EvalRequest) (*api.EvalResult, error) {
	return answer(f, r, &api.EvalResult{})
}

func (f *fakeEngine) Processes(_ context.Context, name string) ([]api.ProcessInfo, error) {
	f.got = name
	return nil, f.err
}

func (f *fakeEngine) Exec(_ context.Context, r api.ExecRequest, stdio engine.Stdio) (*api.ExecResult, error) {
	f.stdio = stdio
	_, _ = io.WriteString(stdio.Out, f.output)
	if f.execID != "" {
		stdio.Started(f.execID)
	}
	return answer(f, r, f.exec)
}

func (f *fakeEngine) Sessions(context.Context, string) ([]api.SessionInfo, error) {
	return f.sessions, nil
}

func (f *fakeEngine) Attach(_ context.Context, r api.ExecRequest, session string, stdio engine.Stdio) (*api.ExecResult, error) {
	f.stdio = stdio
	_, _ = io.WriteString(stdio.Out, f.output)
	return answer(f, []any{r.Cell, session}, f.exec)
}

func (f *fakeEngine) CopyIn(_ context.Context, r api.CopyRequest) (*api.CopyResult, error) {
	return answer[api.CopyResult](f, []any{"in", r}, nil)
}

func (f *fakeEngine) CopyOut(_ context.Context, r api.CopyRequest) (*api.CopyResult, error) {
	return answer[api.CopyResult](f, []any{"out", r}, nil)
}

func (f *fakeEngine) FollowLogs(_ context.Context, name, run string, follow bool, stdout, _ io.Writer) (bool, error) {
	f.got = []any{name, run, follow}
	_, _ = io.WriteString(stdout, f.followed)
	return f.followed != "", f.err
}

func (f *fakeEngine) Key(context.Context) (*api.KeyInfo, error) {
	return answer[api.KeyInfo](f, "show", nil)
}

func (f *fakeEngine) KeyInit(context.Context) (*api.KeyInfo, error) {
	return answer[api.KeyInfo](f, "init", nil)
}

func (f *fakeEngine) KeyRotate(context.Context) (*api.KeyInfo, error) {
	return answer[api.KeyInfo](f, "rotate", nil)
}

func (f *fakeEngine) KeyLost(context.Context) (*api.KeyInfo, error) {
	return answer[api.KeyInfo](f, "rotate", nil)
}

func (f *fakeEngine) TokenCreate(_ context.Context, r api.TokenRequest) (*api.TokenCreated, error) {
	return answer[api.TokenCreated](f, r, nil)
}

func (f *fakeEngine) TokenEntry(_ context.Context, r api.TokenRequest) (*api.TokenCreated, error) {
	return answer[api.TokenCreated](f, r, nil)
}

func (f *fakeEngine) TokenList(context.Context) ([]api.TokenInfo, error) { return nil, f.err }

func (f *fakeEngine) TokenRevoke(_ context.Context, ref string) (*api.TokenInfo, error) {
	return answer[api.TokenInfo](f, ref, nil)
}

func (f *fakeEngine) KeyTrust(_ context.Context, file string) (string, error) {
	f.got = file
	return "key", f.err
}

func (f *fakeEngine) Recover(context.Context, bool) (*api.RecoverResult, error) {
	return answer[api.RecoverResult](f, "recover", nil)
}

func (f *fakeEngine) Doctor(context.Context) ([]driver.Check, error) { return f.checks, nil }

func (f *fakeEngine) KnownNames(context.Context, string) api.KnownNames {
	return api.KnownNames{Cells: f.names, Checkpoints: f.names, Runs: f.names, Receipts: f.names}
}

func (f *fakeEngine) CellAt(context.Context, string) (name, below string, err error) {
	return f.here, f.below, f.err
}

var errPlain = errors.New("plain failure")

func (f *fakeEngine) Forward(_ context.Context, name string, port int) (func(context.Context, io.ReadWriter) error, error) {
	f.got = []any{name, port}
	return func(context.Context, io.ReadWriter) error { return nil }, f.err
}

func (f *fakeEngine) Promote(_ context.Context, r api.PromoteRequest) (*api.PromoteResult, error) {
	return answer[api.PromoteResult](f, r, nil)
}

func (f *fakeEngine) Caches(context.Context) ([]api.SharedCache, error) {
	return []api.SharedCache{}, f.err
}

func (f *fakeEngine) RemoveCaches(_ context.Context, names []string, all bool) ([]string, error) {
	f.got = names
	if all {
		f.got = "all"
	}
	return names, f.err
}

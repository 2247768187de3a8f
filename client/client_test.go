package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/client"
)

// TestStory makes a cell, runs with streamed output, accepts, applies and undoes.
func TestStory(t *testing.T) {
	t.Parallel()
	ctx, c, dir := t.Context(), connect(t), project(t)
	cell, err := c.Cells.CreateFrom(ctx, dir, client.CreateCell{Name: "story", Policy: "offline"})
	if err != nil {
		t.Fatal(err)
	}
	if cell.Name != "story" || cell.Created.Files != 1 {
		t.Errorf("%+v", cell.Created)
	}
	var stdout, stderr bytes.Buffer
	var id string
	r, err := cell.Run(ctx, client.Run{Command: client.Shell("cat; echo oops >&2; echo hi > hello.txt"), Stdin: "given"},
		client.Stdout(&stdout), client.Stderr(&stderr), client.OnStarted(func(run string) { id = run }))
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() || stdout.String() != "given" || r.Stdout != "given" || stderr.String() != "oops\n" || r.Stderr != "oops\n" || id != r.RunID || r.ChangedFiles != 1 {
		t.Errorf("%+v %q %q %s", r, stdout.String(), stderr.String(), id)
	}
	var logs bytes.Buffer
	if err := c.Runs.Output(ctx, r.RunID, true, true, &logs); err != nil || logs.String() != "oops\n" {
		t.Errorf("%q, %v", logs.String(), err)
	}
	wantDiff(t, cell.Diff(client.States{Run: r.RunID}))
	accepted, err := cell.Accept(ctx, client.Accept{Apply: true, Reason: "good"})
	if err != nil || accepted.Applied == nil {
		t.Fatalf("%+v, %v", accepted, err)
	}
	wantFile(t, filepath.Join(dir, "hello.txt"), "hi\n")
	if _, err := cell.Undo(ctx, client.Undo{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(dir, "hello.txt"), "hello\n")
	if err := cell.Remove(ctx, true); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cells.Get(ctx, "story"); !client.HasCode(err, "not_found") {
		t.Error(err)
	}
}

func wantDiff(t *testing.T, d *client.Diff) {
	t.Helper()
	changes, err := d.Changes(t.Context())
	if err != nil || len(changes.Changes) != 1 || changes.Changes[0].Path != "hello.txt" {
		t.Errorf("%+v, %v", changes, err)
	}
	if stat, err := d.Stat(t.Context()); err != nil || !strings.Contains(stat, "hello.txt | 2 +-") {
		t.Errorf("%s, %v", stat, err)
	}
	if patch, err := d.Patch(t.Context()); err != nil || !strings.Contains(patch, "+hi") {
		t.Errorf("%s, %v", patch, err)
	}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%s: %q, %v", path, text, err)
	}
}

// TestLongOutput: what is kept of a long text is text, with a stream and without one, though
// the cut is in the middle of a character.
func TestLongOutput(t *testing.T) {
	t.Parallel()
	cell := newCell(t, connect(t), "long")
	run := client.Run{Command: client.Shell("printf a; yes é | head -n 600000 | tr -d '\\n'; printf '%1048576s' >&2")}
	for _, opts := range [][]client.CallOption{nil, {client.Stdout(io.Discard)}} {
		r, err := cell.Run(t.Context(), run, opts...)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Truncated || len(r.Stdout) != 1<<20-1 || !strings.HasSuffix(r.Stdout, "éé") || len(r.StdoutBase64) != 0 || len(r.Stderr) != 1<<20 {
			t.Errorf("%v: %d bytes of text, %d bytes, %d of errors", r.Truncated, len(r.Stdout), len(r.StdoutBase64), len(r.Stderr))
		}
	}
}

// TestErrors checks that a problem of the daemon is an Error with all its parts.
func TestErrors(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), connect(t)
	_, err := c.Cells.Named("none").Run(ctx, client.Run{Command: []string{"true"}}, client.Stdout(&bytes.Buffer{}))
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Code != "not_found" || e.Status != 404 || e.RequestID == "" || e.Message == "" {
		t.Errorf("%+v", err)
	}
	_, err = c.Cells.Create(ctx, client.CreateCell{Name: "Bad Name!", Source: &client.Source{Path: "/"}})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != 400 {
		t.Errorf("%+v", err)
	}
	cell := newCell(t, c, "errors")
	r, err := cell.Run(ctx, client.Run{Command: client.Shell("exit 3"), RestoreOnFail: true})
	if err != nil || r.OK() || r.ExitCode != 3 || r.Decision != "restored" {
		t.Errorf("%+v, %v", r, err)
	}
	status, err := cell.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cell.Checkpoint(ctx, client.Checkpoint{Name: "one"}, client.IfMatch(status.Revision)); err != nil {
		t.Error(err)
	}
	if _, err := cell.Checkpoint(ctx, client.Checkpoint{Name: "two"}, client.IfMatch(status.Revision)); !client.HasCode(err, "changed") {
		t.Error(err)
	}
}

// TestCancel ends a run with its context.
func TestCancel(t *testing.T) {
	t.Parallel()
	c := connect(t)
	cell := newCell(t, c, "cancel")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	var id string
	_, err := cell.Run(ctx, client.Run{Command: []string{"sleep", "1000"}, RestoreOnFail: true},
		client.OnStarted(func(run string) { id = run; cancel(enough) }))
	if !errors.Is(err, enough) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// The next change of the cell waits for the end of the run.
	if _, err := cell.Run(t.Context(), client.Run{Command: []string{"true"}, RunSettings: client.RunSettings{Wait: "30s"}}); err != nil {
		t.Fatal(err)
	}
	info, err := c.Runs.Get(t.Context(), id)
	if err != nil || info.Outcome != "interrupted" || info.Decision != "restored" {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestBegin begins a run that goes on without the caller, and ends it.
func TestBegin(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), connect(t)
	cell := newCell(t, c, "begin")
	begun, err := cell.Begin(ctx, client.Run{Command: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Runs.Cancel(ctx, begun.RunID); err != nil {
		t.Fatal(err)
	}
	if _, err := cell.Run(ctx, client.Run{Command: []string{"true"}, RunSettings: client.RunSettings{Wait: "30s"}}); err != nil {
		t.Fatal(err)
	}
	var runs []client.RunInfo
	for run, err := range cell.Runs(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	if len(runs) != 2 || runs[0].RunID != begun.RunID || runs[0].Outcome != "interrupted" {
		t.Errorf("%+v", runs)
	}
}

// TestLive starts a cell and executes commands in it.
func TestLive(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), connect(t)
	cell := newCell(t, c, "live")
	if err := cell.Close(ctx); err != nil {
		t.Error("a cell that is not live:", err)
	}
	if _, err := cell.Start(ctx, client.Start{}); err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	for _, opts := range [][]client.CallOption{nil, {client.Stdout(&stdout)}} {
		r, err := cell.Exec(ctx, client.Exec{Command: client.Shell("cat; exit 4"), Stdin: "in"}, opts...)
		if err != nil || r.ExitCode != 4 || r.Stdout != "in" || r.ExecID == "" {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if stdout.String() != "in" {
		t.Errorf("%q", stdout.String())
	}
	if err := cell.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if status, err := cell.Status(ctx); err != nil || status.State != "idle" {
		t.Errorf("%+v, %v", status, err)
	}
}

// TestEvidence lists and verifies what runs, forks and policies leave.
func TestEvidence(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), connect(t)
	cell := newCell(t, c, "evidence")
	r, err := cell.Run(ctx, client.Run{Command: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	verified, err := c.Receipts.Verify(ctx, client.VerifyReceipts{Receipt: r.ReceiptID})
	if err != nil || !verified.OK {
		t.Errorf("%+v, %v", verified, err)
	}
	bundle, err := c.Receipts.Bundle(ctx, r.ReceiptID)
	if err != nil || !strings.Contains(string(bundle), "{") {
		t.Errorf("%s, %v", bundle, err)
	}
	forks, err := cell.Fork(ctx, client.Fork{Name: "evidence-try", N: 2})
	if err != nil || len(forks) != 2 || forks[1].Name != "evidence-try-2" {
		t.Fatalf("%+v, %v", forks, err)
	}
	x, err := c.Policies.Explain(ctx, client.Explain{Cell: cell.Name, Path: "/srv/secret"})
	if err != nil || x.Allowed || x.Reason == "" {
		t.Errorf("%+v, %v", x, err)
	}
	n := 0
	for info, err := range c.Cells.List(ctx, client.CellFilter{State: "idle"}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(info.Name, "evidence") {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d cells", n)
	}
}

// TestRace keeps the attempt that its judge passes, and tells what happens.
func TestRace(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), connect(t)
	cell := newCell(t, c, "race")
	race := client.Race{Attempts: client.Attempts("echo 41 > answer", "echo 42 > answer"), Judge: client.Shell("grep -q 42 answer"), Keep: true}
	ended, judged := map[int]bool{}, map[int]bool{}
	for _, opts := range [][]client.CallOption{nil, {
		client.OnAttempt(func(a client.RaceAttempt) { ended[a.Attempt] = a.Outcome == "succeeded" }),
		client.OnJudged(func(a client.RaceAttempt) { judged[a.Attempt] = *a.JudgeExitCode == 0 }),
	}} {
		res, err := cell.Race(ctx, race, opts...)
		if err != nil || res.Best() == nil || res.Best().Attempt != 2 || len(res.Attempts) != 2 {
			t.Fatalf("%+v, %v", res, err)
		}
		patch, err := res.Best().Diff().Patch(ctx)
		if err != nil || !strings.Contains(patch, "+42") {
			t.Errorf("%s, %v", patch, err)
		}
	}
	if !ended[1] || !ended[2] || judged[1] || !judged[2] || len(judged) != 2 {
		t.Errorf("%v %v", ended, judged)
	}
}

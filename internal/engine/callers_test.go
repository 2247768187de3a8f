package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/evidence/event"
)

// testCaller is one of many callers of one engine, with a cell, a directory and an
// environment that no other has.
type testCaller struct {
	*world
	e    *engine.Engine
	name string // of the caller, and of the caller's cell
	dir  string
}

func (w *world) guest(n int) *testCaller {
	w.Helper()
	g := &testCaller{world: w, name: fmt.Sprintf("guest-%d", n), dir: w.TempDir()}
	g.e = w.e.As(caller.Caller{Actor: func() string { return g.name }, Dir: g.dir, Env: []string{"WHO=" + g.name, "PATH=/usr/bin"}})
	return g
}

// run leaves the name of the caller, as the cell sees it, in a file.
func (g *testCaller) run() error {
	req := api.RunRequest{Cell: g.name, Args: []string{"sh", "-c", "echo $WHO > who.txt"}}
	under("environment: { inherit: [WHO] }\n")(&req)
	req.Grants.Env = []string{"WHO"}
	res, err := g.e.Run(g.ctx, req, engine.Stdio{})
	if err == nil && (res.Outcome != "succeeded" || res.ChangedFiles != 1) {
		err = fmt.Errorf("%s, %d changed: %s", res.Outcome, res.ChangedFiles, res.Error)
	}
	return err
}

// verbs are the operations of the callers after their run; each caller has
// another one.
func (g *testCaller) verbs() []func() error {
	drop := func(_ any, err error) error { return err }
	return []func() error{
		func() error { return drop(g.e.Accept(g.ctx, api.AcceptRequest{Cell: g.name, Reason: "of " + g.name})) },
		func() error {
			return drop(g.e.Accept(g.ctx, api.AcceptRequest{Cell: g.name, Apply: true, Applier: api.ApplyRequest{To: "."}}))
		},
		func() error { return drop(g.e.Export(g.ctx, api.ExportRequest{Cell: g.name, Output: "out"})) },
		func() error { return drop(g.e.Restore(g.ctx, api.RestoreRequest{Cell: g.name})) },
		func() error { return drop(g.e.Checkpoint(g.ctx, g.name, "named")) },
		func() error { return drop(g.e.Fork(g.ctx, api.ForkRequest{Cell: g.name, Name: g.name + "-fork"})) },
		func() error { return drop(g.e.Diff(g.ctx, api.DiffRequest{Cell: g.name})) },
		func() error { return drop(g.e.Status(g.ctx, g.name)) },
		func() error { return drop(g.e.List(g.ctx)) },
		func() error { return drop(g.e.Log(g.ctx, g.name)) },
		func() error { return drop(g.e.Graph(g.ctx)) },
		func() error { return drop(g.e.ReceiptList(g.ctx, g.name)) },
		func() error { return drop(g.e.Decisions(g.ctx, g.name, "")) },
		func() error {
			return g.e.Events(g.ctx, api.EventQuery{Cell: g.name}, func(event.Record) error { return nil })
		},
		func() error { return drop(g.e.Verify(g.ctx, g.name, "", false)) },
		func() error { return drop(g.e.Disk(g.ctx, g.name)) },
	}
}

// TestManyCallers lets 50 callers of one engine act at once, while other processes
// change the same home: each runs a command in a cell, and then does another verb.
// Each statement names the caller who made it, and variables and relative paths are
// each caller's own.
func TestManyCallers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	w.init("busy", "")
	const callers = 50
	guests := make([]*testCaller, callers)
	for n := range guests {
		guests[n] = w.guest(n)
	}
	ends := []func() int{w.startWriter("fork"), w.startWriter("run")}
	var all sync.WaitGroup
	for n, g := range guests {
		all.Go(func() {
			_, err := g.e.Fork(g.ctx, api.ForkRequest{Cell: "demo", Name: g.name})
			if err == nil {
				err = g.run()
			}
			if err == nil {
				err = g.verbs()[n%len(g.verbs())]()
			}
			if err != nil {
				t.Errorf("%s: %v", g.name, err)
			}
		})
	}
	all.Wait()
	for _, end := range ends {
		end()
	}
	for n, g := range guests {
		g.check(n % len(g.verbs()))
	}
	w.sound("demo", "busy", "guest-0")
}

// check checks what a caller left: statements in the caller's name, and the
// files that it wrote in the caller's directory.
func (g *testCaller) check(verb int) {
	g.Helper()
	entries, err := g.world.e.Log(g.ctx, g.name)
	g.ok(err)
	for _, e := range entries {
		if e.Actor != g.name {
			g.Errorf("%s in the log of %s was done by %q", e.Kind, g.name, e.Actor)
		}
	}
	file := map[int]string{1: "who.txt", 2: "out/who.txt"}[verb]
	if file == "" {
		return
	}
	if text, err := os.ReadFile(filepath.Join(g.dir, file)); err != nil || string(text) != g.name+"\n" {
		g.Errorf("%s: %q, %v", g.name, text, err)
	}
}

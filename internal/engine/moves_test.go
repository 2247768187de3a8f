package engine_test

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/local"
)

func (h *story) run(a *actor) {
	before := h.headOf(a)
	script, after := edits(h.rng, cellPaths, before, 5)
	req := api.RunRequest{Cell: a.name, RestoreOnFail: h.rng.IntN(3) == 0, AcceptOnSuccess: h.rng.IntN(3) == 0}
	code := 0
	if h.rng.IntN(4) == 0 {
		code = 1
	}
	head := h.status(a).Head
	shown, err := h.e.Diff(h.ctx, api.DiffRequest{Cell: a.name, From: head, To: head})
	h.ok(err)
	req.Args = []string{"sh", "-c", script + "exit " + strconv.Itoa(code)}
	var errs strings.Builder
	res, err := h.e.Run(h.ctx, req, engine.Stdio{Err: &errs})
	h.ok(err)
	want := "pending"
	switch {
	case code != 0 && req.RestoreOnFail:
		want = "restored"
	case code == 0 && req.AcceptOnSuccess && len(shown.Earlier) == 0:
		want = "accepted"
	}
	h.say("%s exit %d %s:\n%s", a.name, code, want, script)
	if res.ExitCode != code || res.Decision != want {
		h.Fatalf("got %+v, want exit %d and %s\n%s", res, code, want, errs.String())
	}
	h.remember(a, res.CheckpointBefore, before)
	h.remember(a, res.CheckpointAfter, after)
	a.last = &lastRun{before, after}
	if want == "restored" {
		after = before
	}
	h.setHead(a, after)
	h.counts[want]++
}

// remember records the contents of a checkpoint, or compares them with those
// that were recorded.
func (h *story) remember(a *actor, id string, s state) {
	h.Helper()
	if old, seen := h.states[id]; seen {
		h.sameState("checkpoint "+id, s, old)
	}
	h.states[id] = s
	if !slices.Contains(a.known, id) {
		a.known = append(a.known, id)
	}
}

// unless ends an operation that was refused. Nothing may have changed then; the
// caller checks that afterwards.
func (h *story) refusedMove(err error) bool {
	h.Helper()
	if err == nil {
		return false
	}
	if kind := api.KindOf(err); kind != api.Refused && kind != api.NotFound {
		h.Fatalf("kind %s: %v", kind, err)
	}
	h.say("  refused: %v", err)
	return true
}

func (h *story) restore(a *actor) {
	id := a.known[h.rng.IntN(len(a.known))]
	ref := id
	if len(a.names) > 0 && h.rng.IntN(3) == 0 {
		ref = a.names[h.rng.IntN(len(a.names))]
	}
	res, err := h.e.Restore(h.ctx, api.RestoreRequest{Cell: a.name, Checkpoint: ref})
	if h.refusedMove(err) {
		return
	}
	if ref == id && res.CheckpointID != id {
		h.Fatalf("asked for %s, got %+v", id, res)
	}
	h.setHead(a, h.states[res.CheckpointID])
	h.counts["restore"]++
}

func (h *story) accept(a *actor) {
	_, err := h.e.Accept(h.ctx, api.AcceptRequest{Cell: a.name, Force: h.rng.IntN(2) == 0})
	if !h.refusedMove(err) {
		h.counts["accept"]++
	}
}

func (h *story) partial(a *actor) {
	name := []string{"a", "b", "x", "y"}[h.rng.IntN(4)]
	rest := h.undecided(a)
	_, err := h.e.Accept(h.ctx, api.AcceptRequest{Cell: a.name, Force: true, Only: []string{"/" + name}})
	if h.refusedMove(err) {
		return
	}
	want := chosen(name, a.last.after, rest)
	if h.isLive(a) {
		// Changes that people made there meanwhile stay.
		merged, fits := merge3(a.last.after, want, h.outer)
		if !fits {
			h.Fatal("a conflict went through")
		}
		want = merged
	}
	h.setHead(a, want)
	h.counts["partial"]++
}

// undecided returns the state before all undecided work of a cell, which a selection is
// about.
func (h *story) undecided(a *actor) state {
	h.Helper()
	head := h.status(a).Head
	res, err := h.e.Diff(h.ctx, api.DiffRequest{Cell: a.name, From: head, To: head})
	h.ok(err)
	if len(res.Earlier) == 0 {
		return h.headOf(a)
	}
	return h.states[res.Earlier[0].CheckpointBefore]
}

func (h *story) reject(a *actor) {
	res, err := h.e.Reject(h.ctx, a.name, "", "not good")
	if h.refusedMove(err) {
		return
	}
	want, seen := h.states[res.CheckpointID]
	if !seen { // what others did to the directory meanwhile
		want = h.headOf(a)
	}
	h.setHead(a, want)
	h.counts["reject"]++
}

func (h *story) fork(a *actor) {
	if len(h.actors) > 2 || h.isLive(a) && !h.settled(a) {
		return
	}
	b := &actor{
		name: fmt.Sprintf("fork%d", len(h.actors)), head: h.headOf(a), applied: a.applied,
		known: slices.Clone(a.known[:1]),
	}
	_, err := h.e.Fork(h.ctx, api.ForkRequest{Cell: a.name, Name: b.name})
	h.ok(err)
	h.actors = append(h.actors, b)
	h.check(b)
}

// settled brings the head of a cell that works in the source up to date.
func (h *story) settled(a *actor) bool {
	_, err := h.e.Refresh(h.ctx, api.RefreshRequest{Cell: a.name})
	h.ok(err)
	return true
}

func (h *story) apply(a *actor) {
	if _, err := h.e.Accept(h.ctx, api.AcceptRequest{Cell: a.name, Force: true}); h.refusedMove(err) && a.last != nil {
		return
	}
	if h.isLive(a) {
		_, err := h.e.Apply(h.ctx, api.ApplyRequest{Cell: a.name})
		h.refusedMove(err)
		return
	}
	before := h.outer
	res, err := h.e.Apply(h.ctx, api.ApplyRequest{Cell: a.name})
	if h.refusedMove(err) {
		h.reallyConflicts(a, err)
		return
	}
	theirs, seen := h.states[res.Checkpoint]
	if !seen {
		h.Fatalf("unknown state %s", res.Checkpoint)
	}
	merged, fits := merge3(h.base(a, res.Checkpoint), theirs, before)
	if !fits {
		h.Fatalf("a conflict went through: %+v", res)
	}
	h.touched(merged)
	a.applied = res.Checkpoint
	if len(res.Written) > 0 {
		a.before = before
	}
	h.counts["apply"]++
}

// reallyConflicts checks a refusal of an apply of the whole head.
func (h *story) reallyConflicts(a *actor, err error) {
	h.Helper()
	if !strings.Contains(err.Error(), "conflict") {
		return
	}
	res, err := h.e.Apply(h.ctx, api.ApplyRequest{Cell: a.name, DryRun: true, OnConflict: "ours"})
	h.ok(err)
	if merged, fits := merge3(h.base(a, res.Checkpoint), h.states[res.Checkpoint], h.outer); fits {
		h.Fatalf("there is no conflict: %v\n%s", err, merged.text())
	}
}

// base is what a state of a cell and the source both come from: what the source
// was last known to hold, but for its own changes that the state does not
// have because the cell went back behind them.
func (h *story) base(a *actor, of string) state {
	h.Helper()
	nodes, err := h.e.Graph(h.ctx)
	h.ok(err)
	parent := map[string]string{}
	for _, n := range nodes {
		parent[n.CheckpointID] = n.Parent
	}
	knows := map[string]bool{}
	for id := of; id != ""; id = parent[id] {
		knows[id], knows[h.merged[id]] = true, true
	}
	id := a.applied
	for h.came[id] != "" && !knows[id] {
		id = h.came[id]
	}
	return h.states[id]
}

func (h *story) undo(a *actor) {
	if a.before == nil {
		return
	}
	want := a.before
	_, err := h.e.Undo(h.ctx, api.UndoRequest{Cell: a.name})
	h.ok(err)
	h.touched(want)
	a.applied = h.status(a).Applied
	h.counts["undo"]++
}

func (h *story) status(a *actor) *api.StatusResult {
	h.Helper()
	info, err := h.e.Status(h.ctx, a.name)
	h.ok(err)
	return info
}

func (h *story) editSource(*actor) {
	script, after := edits(h.rng, peoplePaths, h.outer, 3)
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = h.world.source
	if out, err := cmd.CombinedOutput(); err != nil {
		h.Fatalf("%v: %s", err, out)
	}
	h.say("source:\n%s", script)
	h.touched(after)
}

func (h *story) refresh(a *actor) {
	merged, fits := merge3(h.base(a, h.status(a).Head), h.outer, a.head)
	_, err := h.e.Refresh(h.ctx, api.RefreshRequest{Cell: a.name})
	if h.isLive(a) {
		h.ok(err)
		return
	}
	if h.refusedMove(err) {
		if fits {
			h.Fatalf("there is no conflict: %v\n%s", err, merged.text())
		}
		return
	}
	if !fits {
		h.Fatal("a conflict went through")
	}
	a.head = merged
	info := h.status(a)
	if info.Applied != a.applied {
		h.states[info.Applied] = h.outer
		h.came[info.Applied], h.merged[info.Head] = a.applied, info.Applied
		a.applied = info.Applied
	}
	h.counts["refresh"]++
}

func (h *story) name(a *actor) {
	name := fmt.Sprintf("n%d", len(h.trace))
	res, err := h.e.Checkpoint(h.ctx, a.name, name)
	h.ok(err)
	h.remember(a, res.CheckpointID, h.headOf(a))
	a.names = append(a.names, name)
}

func (h *story) gc(*actor) {
	_, err := h.e.GC(h.ctx, api.GCRequest{})
	h.ok(err)
}

// rebuild deletes the database and recovers it.
func (h *story) rebuild(*actor) {
	type place struct{ head, applied, root string }
	places := func() map[string]place {
		out := map[string]place{}
		for _, a := range h.actors {
			info, err := h.e.Status(h.ctx, a.name)
			h.ok(err)
			out[a.name] = place{info.Head, info.Applied, info.Root}
		}
		return out
	}
	before := places()
	h.loseDatabase()
	e, release, err := local.Open(h.home, local.Rescue, tester())
	h.ok(err)
	res, err := e.Recover(h.ctx, false)
	h.ok(err)
	h.ok(release())
	for _, p := range res.Problems {
		if !strings.Contains(p, "is gone") { // gc freed it
			h.Fatalf("recover: %s", p)
		}
	}
	h.openWith(time.Now, 4)
	if after := places(); !maps.Equal(before, after) {
		h.Fatalf("before %v\nafter  %v", before, after)
	}
	h.counts["recover"]++
}

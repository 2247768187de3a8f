package engine_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// historySteps is how many operations a history has.
const historySteps = 45

// TestHistories plays random operations against a model of what each cell and
// the source must hold. FORKCELL_TEST_SEED repeats one history.
func TestHistories(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		for _, seed := range seeds(t, 1, 2) {
			t.Run(fmt.Sprintf("%s/%d", backend, seed), func(t *testing.T) {
				t.Parallel()
				newStory(t, backend, seed).play()
			})
		}
	}
}

const seedName = "FORKCELL_TEST_SEED"

// seeds are fixed, unless one is to be tried or repeated.
func seeds(t *testing.T, fixed ...uint64) []uint64 {
	t.Helper()
	text := os.Getenv(seedName)
	if text == "" {
		return fixed
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return []uint64{seed}
}

// actor is one cell in the model.
type actor struct {
	name    string
	head    state
	applied string   // the state that the source was last known to have
	known   []string // its checkpoints
	names   []string
	last    *lastRun
	// before is what the source held before this cell's last apply; nil once
	// something else touched it.
	before state
}

type lastRun struct{ before, after state }

type story struct {
	*world
	rng     *rand.Rand
	backend string
	outer   state
	actors  []*actor
	states  map[string]state  // by checkpoint
	came    map[string]string // a state of the source that a refresh saw, to the one known before it
	merged  map[string]string // a checkpoint that a refresh made, to the state of the source in it
	roots   map[string]string // the identity of each content
	trace   []string
	counts  map[string]int
}

func newStory(t *testing.T, backend string, seed uint64) *story {
	t.Helper()
	w := newWorld(t)
	h := &story{
		world: w, backend: backend, rng: rand.New(rand.NewPCG(seed, 7)),
		states: map[string]state{}, came: map[string]string{}, merged: map[string]string{}, roots: map[string]string{}, counts: map[string]int{},
	}
	h.openWith(time.Now, 4)
	for _, d := range []string{"docs", "."} {
		h.ok(os.Chmod(filepath.Join(w.source, d), 0o755))
	}
	h.outer = h.state(w.source)
	made := h.init("main", backend)
	h.states[made.CheckpointID] = h.outer
	h.actors = []*actor{{name: "main", head: h.outer, applied: made.CheckpointID, known: []string{made.CheckpointID}}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("history %s with seed %d:\n%s", backend, seed, strings.Join(h.trace, "\n"))
		}
	})
	return h
}

func (h *story) say(format string, args ...any) {
	h.trace = append(h.trace, fmt.Sprintf("%d: ", len(h.trace))+fmt.Sprintf(format, args...))
}

// isLive: the cell works in the source itself.
func (h *story) isLive(a *actor) bool { return h.backend == "delta" && a.name == "main" }

// head returns the present state of a cell.
func (h *story) headOf(a *actor) state {
	if h.isLive(a) {
		return h.outer
	}
	return a.head
}

func (h *story) setHead(a *actor, s state) {
	a.head = s
	if h.isLive(a) {
		h.touched(s)
	}
}

// touched notes that the source was changed.
func (h *story) touched(s state) {
	h.outer = s
	for _, a := range h.actors {
		a.before = nil
	}
}

func (h *story) play() {
	moves := []struct {
		weight int
		name   string
		do     func(*actor)
	}{
		{10, "run", h.run},
		{3, "restore", h.restore},
		{2, "accept", h.accept},
		{2, "partial", h.partial},
		{2, "reject", h.reject},
		{1, "fork", h.fork},
		{4, "apply", h.apply},
		{2, "undo", h.undo},
		{3, "edit", h.editSource},
		{3, "refresh", h.refresh},
		{1, "name", h.name},
		{1, "gc", h.gc},
		{1, "recover", h.rebuild},
	}
	total := 0
	for _, m := range moves {
		total += m.weight
	}
	for range historySteps {
		at := h.rng.IntN(total)
		for _, m := range moves {
			if at -= m.weight; at < 0 {
				a := h.actors[h.rng.IntN(len(h.actors))]
				h.say("%s %s", m.name, a.name)
				m.do(a)
				h.check(a)
				break
			}
		}
	}
	h.end()
}

// check compares one cell, and the source, with the model.
func (h *story) check(a *actor) {
	h.Helper()
	h.sameState("the source", h.outer, h.state(h.world.source))
	info, err := h.e.Status(h.ctx, a.name)
	h.ok(err)
	if h.isLive(a) {
		return // its head may be older than the directory
	}
	want := h.headOf(a)
	if s, seen := h.states[info.Head]; seen {
		h.sameState(a.name+" at "+info.Head, want, s)
	}
	h.states[info.Head] = want
	if !slices.Contains(a.known, info.Head) {
		a.known = append(a.known, info.Head)
	}
	// Equal contents have equal identities, and different contents have
	// different ones, so each content is exported only once.
	if root, seen := h.roots[want.text()]; seen {
		if root != info.Root {
			h.Fatalf("%s has the root %s; equal contents had %s", a.name, info.Root, root)
		}
		return
	}
	for text, root := range h.roots {
		if root == info.Root {
			h.Fatalf("two contents have the root %s:\n%s\n\n%s", root, text, want.text())
		}
	}
	h.roots[want.text()] = info.Root
	h.look(a)
}

// look exports a cell and compares it with the model.
func (h *story) look(a *actor) {
	h.Helper()
	out := filepath.Join(h.TempDir(), "out")
	_, err := h.e.Export(h.ctx, api.ExportRequest{Cell: a.name, Output: out})
	h.ok(err)
	h.sameState(a.name, h.headOf(a), h.state(out))
}

// end looks at everything once more.
func (h *story) end() {
	var all []string
	for _, a := range h.actors {
		h.say("look at %s", a.name)
		if h.isLive(a) {
			h.settled(a)
		}
		h.look(a)
		all = append(all, a.name)
	}
	h.sound(all...)
	h.noMounts()
	h.Logf("%v", h.counts)
}

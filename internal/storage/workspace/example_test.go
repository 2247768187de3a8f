package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// exampleHome is an empty home, with a cell and a source for it.
type exampleHome struct {
	dir, source string
	store       *workspace.Store
	cell        workspace.Cell
}

func newExampleHome(b workspace.Backend) *exampleHome {
	dir, err := os.MkdirTemp("", "workspace-example-")
	must(err)
	h := &exampleHome{dir: dir + "/home", source: dir + "/source"}
	must(errors.Join(os.Mkdir(h.dir, 0o700), os.Mkdir(h.source, 0o755)))
	must(os.WriteFile(h.source+"/greeting", []byte("hello"), 0o644))
	h.cell = workspace.Cell{ID: "cell_1", Backend: b, MountAt: "/src/project"}
	if b == workspace.BackendDelta {
		h.cell.Live = h.source
	}
	h.open()
	return h
}

func (h *exampleHome) open() {
	var err error
	h.store, err = openUnsynced(h.dir)
	must(err)
}

// show prints what the home holds.
func (h *exampleHome) show(when string) {
	var parts []string
	for _, dir := range []string{"layers", "pending"} {
		entries, err := os.ReadDir(filepath.Join(h.dir, dir))
		must(err)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		parts = append(parts, fmt.Sprintf("%s %q", dir, names))
	}
	fmt.Printf("%s: %s\n", when, strings.Join(parts, ", "))
}

func (h *exampleHome) remove() {
	must(errors.Join(h.store.Close(), os.RemoveAll(filepath.Dir(h.dir))))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A run that changes something becomes a state, and one that does not leaves nothing.
func Example() {
	ctx := context.Background()
	h := newExampleHome(workspace.BackendClone)
	defer h.remove()

	base, _, err := h.store.Import(ctx, h.cell, "op_1", workspace.Source{Dir: h.source})
	must(err)
	h.show("imported")

	work, err := h.store.Begin(ctx, h.cell, base.Layer, "run_2")
	must(err)
	h.show("begun")
	// The caller mounts work.Mounts() and runs a command, which changes files.
	must(os.WriteFile(work.Dir()+"/workspace/greeting", []byte("hello, cell"), 0o644))
	sealed, err := work.Seal(ctx)
	must(err)
	h.show("sealed")
	fmt.Printf("%s on %s, %d change\n", sealed.Layer, sealed.Parent, sealed.Changed)

	work, err = h.store.Begin(ctx, h.cell, sealed.Layer, "run_3")
	must(err)
	again, err := work.Seal(ctx)
	must(err)
	h.show("sealed without a change")
	// The caller records that the state is still the one before.
	fmt.Println("unchanged:", again.Unchanged, again.Layer)
	must(work.Discard())
	h.show("discarded")

	// Output:
	// imported: layers ["lay_1"], pending []
	// begun: layers ["lay_1"], pending ["run_2"]
	// sealed: layers ["lay_1" "lay_2"], pending []
	// lay_2 on lay_1, 1 change
	// sealed without a change: layers ["lay_1" "lay_2"], pending ["run_3"]
	// unchanged: true lay_2
	// discarded: layers ["lay_1" "lay_2"], pending []
}

// After a crash, the name of the operation leads to what is left of it.
func ExampleStore_Resume() {
	ctx := context.Background()
	h := newExampleHome(workspace.BackendClone)
	defer h.remove()
	base, _, err := h.store.Import(ctx, h.cell, "op_1", workspace.Source{Dir: h.source})
	must(err)
	// restart is what a crash of the program and a new start look like from here.
	restart := func() {
		must(h.store.Close())
		h.open()
	}

	restart() // before Begin
	work, sealed, err := h.store.Resume(ctx, h.cell, base.Layer, "run_2")
	must(err)
	fmt.Println("before Begin:", work != nil, sealed != nil)

	work, err = h.store.Begin(ctx, h.cell, base.Layer, "run_2")
	must(err)
	must(work.RecordInit([]byte("pid 1234")))
	must(os.WriteFile(work.Dir()+"/workspace/greeting", []byte("hello, cell"), 0o644))
	work.Close()
	restart() // while the command ran
	work, sealed, err = h.store.Resume(ctx, h.cell, base.Layer, "run_2")
	must(err)
	record, err := work.InitRecord()
	must(err)
	fmt.Printf("before Seal: %v %v, %s\n", work != nil, sealed != nil, record)

	_, err = work.Seal(ctx)
	must(err)
	restart() // before the caller has recorded the state
	work, sealed, err = h.store.Resume(ctx, h.cell, base.Layer, "run_2")
	must(err)
	fmt.Println("after Seal:", work != nil, sealed != nil, sealed.Layer)

	// Output:
	// before Begin: false false
	// before Seal: true false, pid 1234
	// after Seal: false true lay_2
}

// A capture is a state of one moment, while the generation goes on.
func ExampleWork_Capture() {
	ctx := context.Background()
	h := newExampleHome(workspace.BackendClone)
	defer h.remove()
	base, _, err := h.store.Import(ctx, h.cell, "op_1", workspace.Source{Dir: h.source})
	must(err)
	work, err := h.store.Begin(ctx, h.cell, base.Layer, "run_2")
	must(err)
	must(os.WriteFile(work.Dir()+"/workspace/greeting", []byte("hello, cell"), 0o644))
	capture, err := work.Capture(ctx, "op_3") // the caller has frozen the cell
	must(err)
	h.show("captured")
	must(os.WriteFile(work.Dir()+"/workspace/greeting", []byte("good bye"), 0o644))
	moment, err := capture.Seal(ctx)
	must(err)
	end, err := work.Seal(ctx)
	must(err)
	h.show("sealed")
	fmt.Printf("%s on %s, %s on %s\n", moment.Layer, moment.Parent, end.Layer, end.Parent)

	// Output:
	// captured: layers ["lay_1"], pending ["op_3" "run_2"]
	// sealed: layers ["lay_1" "lay_2" "lay_3"], pending []
	// lay_3 on lay_1, lay_2 on lay_1
}

// The changes of a delta cell are in its real directory. Discard leaves them there, and
// Switch takes them back.
func ExampleStore_Switch() {
	ctx := context.Background()
	h := newExampleHome(workspace.BackendDelta)
	defer h.remove()
	base, _, err := h.store.Import(ctx, h.cell, "op_1", workspace.Source{Dir: h.source})
	must(err)
	work, err := h.store.Begin(ctx, h.cell, base.Layer, "run_2")
	must(err)
	must(os.WriteFile(h.cell.Live+"/greeting", []byte("hello, cell"), 0o644))
	sealed, err := work.Seal(ctx)
	must(err)

	// The caller records what it is about to do, for ResumeSwitch after a crash.
	must(h.store.Switch(ctx, h.cell, sealed.Layer, base.Layer, "op_3"))
	text, err := os.ReadFile(h.cell.Live + "/greeting")
	must(err)
	fmt.Printf("%s\n", text)
	must(h.store.ForgetSwitch("op_3"))

	// Output:
	// hello
}

// Layers that nobody names go, but for those below a layer that somebody names.
func ExampleStore_Sweep() {
	ctx := context.Background()
	h := newExampleHome(workspace.BackendClone)
	defer h.remove()
	base, _, err := h.store.Import(ctx, h.cell, "op_1", workspace.Source{Dir: h.source})
	must(err)
	work, err := h.store.Begin(ctx, h.cell, base.Layer, "run_2")
	must(err)
	must(os.WriteFile(work.Dir()+"/workspace/greeting", []byte("hello, cell"), 0o644))
	head, err := work.Seal(ctx)
	must(err)

	report, err := h.store.Sweep(ctx,
		func(layer string) bool { return layer == head.Layer }, // what the caller's records name
		func(op string) bool { return false },                  // what is at work now
		false)
	must(err)
	must(h.store.Empty(ctx, &report)) // the slow part, which needs no lock
	h.show("swept")

	// Output:
	// swept: layers ["lay_2"], pending []
}

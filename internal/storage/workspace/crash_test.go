package workspace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/storage/workspace/workspacetest"
)

// crashName is this binary, started again to be killed during a seal.
const crashName = "workspace-crash"

type crashJob struct {
	Home, Src, Live   string
	Backend           workspace.Backend
	Layer, Op, Import string
	Step              string
	Snapshot          string // the operation of a snapshot, instead of the seal
}

func crashMain() int {
	var job crashJob
	if err := json.NewDecoder(os.Stdin).Decode(&job); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s, err := workspace.Open(job.Home, workspace.Options{Root: os.Geteuid() == 0}.Crashing(func(step string) error {
		if step == job.Step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c := workspace.Cell{ID: "cell_1", Backend: job.Backend, MountAt: "/w", Live: job.Live}
	if job.Import != "" {
		_, _, err = s.Import(context.Background(), c, job.Op, workspace.Source{Dir: job.Import})
	} else {
		var w *workspace.Work
		w, _, err = s.Resume(context.Background(), c, job.Layer, job.Op)
		switch {
		case err != nil:
		case job.Snapshot != "":
			_, err = w.Snapshot(context.Background(), job.Snapshot)
		default:
			_, err = w.Seal(context.Background())
		}
	}
	fmt.Fprintln(os.Stderr, "it lived:", err)
	return 1
}

func crash(t *testing.T, job crashJob) {
	t.Helper()
	in, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{crashName}
	var out bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &out
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("at %s: %v: %s", job.Step, err, out.String())
	}
}

var sealSteps = []string{"seal.hashed", "seal.packed", "seal.synced", "seal.renamed"}

// TestCrashSeal kills a process at every step of a seal. Either the generation
// or the state is left, and it is complete.
func TestCrashSeal(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		workspacetest.Play(t, workspacetest.Job{Dir: w.Source, Acts: []workspacetest.Act{
			{Do: "write", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("1")}, {Do: "mkdir", Path: workspacetest.Bytes("d")}, {Do: "write", Path: workspacetest.Bytes("d/g")},
		}})
		w.AddArea(workspacetest.Act{Do: "write", Path: workspacetest.Bytes("h"), Data: workspacetest.Bytes("1")})
		base, _ := w.Import()
		layer := base.Layer
		for _, step := range sealSteps {
			work := w.Begin(w.Cell, layer)
			want := w.Do(work, workspacetest.Act{Do: "write", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("%s", step)}, workspacetest.Act{Do: "append", Path: workspacetest.Bytes("d/g"), Data: workspacetest.Bytes("x")})
			data := w.DoInArea(work, workspacetest.Act{Do: "append", Path: workspacetest.Bytes("h"), Data: workspacetest.Bytes("2")})
			op := workspacetest.OpOf(work)
			work.Close()
			crash(t, crashJob{Home: w.Home, Live: w.Cell.Live, Backend: w.Cell.Backend, Layer: layer, Op: op, Step: step})
			w.open(workspace.Options{})
			again, sealed, err := w.Store.Resume(context.Background(), w.WithoutAreas(), layer, op)
			w.Must(err)
			if (again != nil) != (step != "seal.renamed") || (sealed != nil) == (again != nil) {
				t.Fatalf("after %s: work %v, sealed %v", step, again != nil, sealed != nil)
			}
			if again != nil {
				one := w.Seal(again)
				sealed = &one
			}
			if sealed.Changed != 2 || sealed.Parent != layer {
				t.Errorf("after %s: %+v", step, sealed)
			}
			w.Check("after "+step, sealed.Layer, want)
			workspacetest.SameItems(t, "area after "+step, data, w.AreaSeen(sealed.Layer))
			w.NoPending()
			layer = sealed.Layer
		}
		if w, sealed, err := w.Store.Resume(context.Background(), w.Cell, layer, "run_none"); w != nil || sealed != nil || err != nil {
			t.Errorf("of nothing there is %v, %v, %v", w, sealed, err)
		}
	})
}

// TestCrashImport kills an import: it happened or it did not.
func TestCrashImport(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		want := workspacetest.Play(t, workspacetest.Job{Dir: w.Source, Acts: []workspacetest.Act{{Do: "write", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("1")}}})
		for i, step := range sealSteps {
			op := fmt.Sprintf("op_%d", i)
			crash(t, crashJob{Home: w.Home, Live: w.Cell.Live, Backend: w.Cell.Backend, Import: w.Source, Op: op, Step: step})
			w.open(workspace.Options{})
			work, sealed, err := w.Store.Resume(context.Background(), w.Cell, "", op)
			w.Must(err)
			if work != nil || (sealed != nil) != (step == "seal.renamed") {
				t.Errorf("after %s: %v, %v", step, work, sealed)
			}
			if sealed != nil {
				w.Check("after "+step, sealed.Layer, want)
			}
			w.NoPending()
		}
	})
}

// TestFullDisk makes every step of a seal fail. The generation stays and can be
// sealed when there is space again. If the state had its name already, it is
// found there.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		workspacetest.Play(t, workspacetest.Job{Dir: w.Source, Acts: []workspacetest.Act{{Do: "write", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("1")}}})
		base, _ := w.Import()
		layer := base.Layer
		for _, step := range sealSteps {
			work := w.Begin(w.Cell, layer)
			want := w.Do(work, workspacetest.Act{Do: "append", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("x")})
			*w.Store.Hook() = func(s string) error {
				if s == step {
					return syscall.ENOSPC
				}
				return nil
			}
			if _, err := work.Seal(context.Background()); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("at %s: %v", step, err)
			}
			if _, _, err := w.Store.Import(context.Background(), w.Cell, w.Op(), workspace.Source{Dir: w.Source}); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("import at %s: %v", step, err)
			}
			*w.Store.Hook() = nil
			work.Close()
			again, sealed, err := w.Store.Resume(context.Background(), w.Cell, layer, workspacetest.OpOf(work))
			w.Must(err)
			if again != nil {
				one := w.Seal(again)
				sealed = &one
			}
			w.Check("after "+step, sealed.Layer, want)
			w.NoPending()
			layer = sealed.Layer
		}
	})
}

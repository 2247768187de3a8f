package workspace

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
)

// crashName is this binary, started again to be killed during a seal.
const crashName = "workspace-crash"

type crashJob struct {
	Home, Src, Live   string
	Backend           Backend
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
	s, err := Open(job.Home, Options{Root: os.Geteuid() == 0, hook: func(step string) error {
		if step == job.Step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c := Cell{ID: "cell_1", Backend: job.Backend, MountAt: "/w", Live: job.Live}
	if job.Import != "" {
		_, _, err = s.Import(context.Background(), c, job.Op, Source{Dir: job.Import})
	} else {
		var w *Work
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
		play(t, actorJob{Dir: w.src, Acts: []act{
			{Do: "write", Path: p("f"), Data: p("1")}, {Do: "mkdir", Path: p("d")}, {Do: "write", Path: p("d/g")},
		}})
		w.withArea(act{Do: "write", Path: p("h"), Data: p("1")})
		base, _ := w.imports()
		layer := base.Layer
		for _, step := range sealSteps {
			work := w.begin(w.c, layer)
			want := w.acts(work, act{Do: "write", Path: p("f"), Data: p("%s", step)}, act{Do: "append", Path: p("d/g"), Data: p("x")})
			data := w.inArea(work, act{Do: "append", Path: p("h"), Data: p("2")})
			op := work.p.op
			work.Close()
			crash(t, crashJob{Home: w.home, Live: w.c.Live, Backend: w.c.Backend, Layer: layer, Op: op, Step: step})
			w.open(Options{})
			again, sealed, err := w.s.Resume(context.Background(), w.without(), layer, op)
			w.must(err)
			if (again != nil) != (step != "seal.renamed") || (sealed != nil) == (again != nil) {
				t.Fatalf("after %s: work %v, sealed %v", step, again != nil, sealed != nil)
			}
			if again != nil {
				one := w.seal(again)
				sealed = &one
			}
			if sealed.Changed != 2 || sealed.Parent != layer {
				t.Errorf("after %s: %+v", step, sealed)
			}
			w.check("after "+step, sealed.Layer, want)
			sameItems(t, "area after "+step, data, w.areaSeen(sealed.Layer))
			w.noPending()
			layer = sealed.Layer
		}
		if w, sealed, err := w.s.Resume(context.Background(), w.c, layer, "run_none"); w != nil || sealed != nil || err != nil {
			t.Errorf("of nothing there is %v, %v, %v", w, sealed, err)
		}
	})
}

// TestCrashImport kills an import: it happened or it did not.
func TestCrashImport(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		want := play(t, actorJob{Dir: w.src, Acts: []act{{Do: "write", Path: p("f"), Data: p("1")}}})
		for i, step := range sealSteps {
			op := fmt.Sprintf("op_%d", i)
			crash(t, crashJob{Home: w.home, Live: w.c.Live, Backend: w.c.Backend, Import: w.src, Op: op, Step: step})
			w.open(Options{})
			work, sealed, err := w.s.Resume(context.Background(), w.c, "", op)
			w.must(err)
			if work != nil || (sealed != nil) != (step == "seal.renamed") {
				t.Errorf("after %s: %v, %v", step, work, sealed)
			}
			if sealed != nil {
				w.check("after "+step, sealed.Layer, want)
			}
			w.noPending()
		}
	})
}

// TestFullDisk makes every step of a seal fail. The generation stays and can be
// sealed when there is space again. If the state had its name already, it is
// found there.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		play(t, actorJob{Dir: w.src, Acts: []act{{Do: "write", Path: p("f"), Data: p("1")}}})
		base, _ := w.imports()
		layer := base.Layer
		for _, step := range sealSteps {
			work := w.begin(w.c, layer)
			want := w.acts(work, act{Do: "append", Path: p("f"), Data: p("x")})
			w.s.opt.hook = func(s string) error {
				if s == step {
					return syscall.ENOSPC
				}
				return nil
			}
			if _, err := work.Seal(context.Background()); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("at %s: %v", step, err)
			}
			if _, _, err := w.s.Import(context.Background(), w.c, w.op(), Source{Dir: w.src}); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("import at %s: %v", step, err)
			}
			w.s.opt.hook = nil
			work.Close()
			again, sealed, err := w.s.Resume(context.Background(), w.c, layer, work.p.op)
			w.must(err)
			if again != nil {
				one := w.seal(again)
				sealed = &one
			}
			w.check("after "+step, sealed.Layer, want)
			w.noPending()
			layer = sealed.Layer
		}
	})
}

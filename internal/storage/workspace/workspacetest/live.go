package workspacetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// liveName is this binary, started again as a live cell that is captured: it
// keeps its overlay mounted and a file mapped.
const liveName = "workspace-live"

func liveMain() int {
	dec, enc := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	if err := liveRun(dec, enc); err != nil {
		fmt.Fprintln(os.Stderr, "live:", err)
		return 1
	}
	return 0
}

func liveRun(dec *json.Decoder, enc *json.Encoder) error {
	var job Job
	if err := dec.Decode(&job); err != nil {
		return err
	}
	if _, err := job.run(); err != nil {
		return err
	}
	f, err := os.OpenFile(job.Dir+"/mapped", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(8192); err != nil {
		return err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	for {
		items, err := walk(job.Dir, job.User)
		if err != nil {
			return err
		}
		if err := enc.Encode(items); err != nil {
			return err
		}
		var next []Act
		if err := dec.Decode(&next); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		for _, a := range next {
			if a.Do == "map" { // no system call shows it
				copy(mem[a.N:], a.Data)
				continue
			}
			if err := a.do(job.Dir); err != nil {
				return err
			}
		}
	}
}

// live is such a cell, seen from outside.
type live struct {
	w   *World
	cmd *exec.Cmd
	in  *json.Encoder
	out *json.Decoder
	end io.Closer
}

func (w *World) live(work *workspace.Work) (*live, []Item) {
	w.T.Helper()
	job := w.job(work, "/w", nil)
	job.User = os.Geteuid() != 0
	cmd := inNamespaces(w.T, liveName)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	w.Must(err)
	out, err := cmd.StdoutPipe()
	w.Must(err)
	w.Must(cmd.Start())
	l := &live{w: w, cmd: cmd, in: json.NewEncoder(in), out: json.NewDecoder(out), end: in}
	w.Must(l.in.Encode(job))
	return l, l.see()
}

func (l *live) see() []Item {
	l.w.T.Helper()
	var items []Item
	l.w.Must(l.out.Decode(&items))
	return l.w.dropUnreliable(items)
}

func (l *live) do(acts ...Act) []Item {
	l.w.T.Helper()
	l.w.Must(l.in.Encode(acts))
	return l.see()
}

// testCaptureMounted captures a cell with its mounts, open files and dirty
// pages. The cell waits for the next order, as if it were frozen.
func testCaptureMounted(t *testing.T, w *World) {
	Play(t, Job{Dir: w.Source, Acts: SourceActs()})
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)
	cell, _ := w.live(work)
	var snaps []workspace.Sealed
	var seen [][]Item
	for _, acts := range [][]Act{
		append(ChangeActs(), Act{Do: "map", N: 100, Data: Bytes("mapped")}),
		{{Do: "map", N: 5000, Data: Bytes("more")}, {Do: "mtime", Path: Bytes("mapped"), N: 7}},
		{{Do: "rm", Path: Bytes("mapped")}, {Do: "rm", Path: Bytes("wide")}},
	} {
		want := cell.do(acts...)
		snap, err := work.Snapshot(context.Background(), w.Op())
		w.Must(err)
		snaps, seen = append(snaps, snap), append(seen, want)
	}
	w.Must(cell.end.Close())
	w.Must(cell.cmd.Wait())
	for i, snap := range snaps {
		w.Check(fmt.Sprintf("snapshot %d", i), snap.Layer, seen[i])
	}
	last := w.Seal(work)
	w.Check("sealed", last.Layer, seen[2])
	if got := snaps[2].Areas[workspace.AreaWorkspace].Root; got != last.Areas[workspace.AreaWorkspace].Root {
		t.Errorf("the last snapshot is %s, the seal %s", got, last.Areas[workspace.AreaWorkspace].Root)
	}
}

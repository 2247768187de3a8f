package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
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
	var job actorJob
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
		var next []act
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
	w   *world
	cmd *exec.Cmd
	in  *json.Encoder
	out *json.Decoder
	end io.Closer
}

func (w *world) live(work *Work) (*live, []item) {
	w.t.Helper()
	job := w.job(work, "/w", nil)
	job.User = os.Geteuid() != 0
	cmd := inNamespaces(w.t, liveName)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	w.must(err)
	out, err := cmd.StdoutPipe()
	w.must(err)
	w.must(cmd.Start())
	l := &live{w: w, cmd: cmd, in: json.NewEncoder(in), out: json.NewDecoder(out), end: in}
	w.must(l.in.Encode(job))
	return l, l.see()
}

func (l *live) see() []item {
	l.w.t.Helper()
	var items []item
	l.w.must(l.out.Decode(&items))
	return l.w.dropUnreliable(items)
}

func (l *live) do(acts ...act) []item {
	l.w.t.Helper()
	l.w.must(l.in.Encode(acts))
	return l.see()
}

// TestCaptureMounted captures a cell with its mounts, open files and dirty
// pages. The cell waits for the next order, as if it were frozen.
func TestCaptureMounted(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		play(t, actorJob{Dir: w.src, Acts: sourceActs()})
		base, _ := w.imports()
		work := w.begin(w.c, base.Layer)
		cell, _ := w.live(work)
		var snaps []Sealed
		var seen [][]item
		for _, acts := range [][]act{
			append(changeActs(), act{Do: "map", N: 100, Data: p("mapped")}),
			{{Do: "map", N: 5000, Data: p("more")}, {Do: "mtime", Path: p("mapped"), N: 7}},
			{{Do: "rm", Path: p("mapped")}, {Do: "rm", Path: p("wide")}},
		} {
			want := cell.do(acts...)
			snap, err := work.Snapshot(context.Background(), w.op())
			w.must(err)
			snaps, seen = append(snaps, snap), append(seen, want)
		}
		w.must(cell.end.Close())
		w.must(cell.cmd.Wait())
		for i, snap := range snaps {
			w.check(fmt.Sprintf("snapshot %d", i), snap.Layer, seen[i])
		}
		last := w.seal(work)
		w.check("sealed", last.Layer, seen[2])
		if got := snaps[2].Areas[AreaWorkspace].Root; got != last.Areas[AreaWorkspace].Root {
			t.Errorf("the last snapshot is %s, the seal %s", got, last.Areas[AreaWorkspace].Root)
		}
	})
}

// FuzzPlaced checks that no areas.json leads out of the generation.
func FuzzPlaced(f *testing.F) {
	f.Add([]byte(`[{"name":"path:/x","host":"/x","target":"/x","system":false,"dir":"area-0","fresh":{"root":"","meta":""}}]`))
	f.Add([]byte(`[{"name":"home","dir":"../x"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parsePlaced(data)
		for _, a := range list {
			if err == nil && (!isAreaDir(a.Dir) || a.Name == AreaHome || a.Name == "") {
				t.Errorf("%+v was accepted", a)
			}
		}
	})
}

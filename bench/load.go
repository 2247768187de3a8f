package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// loadRate is the number of requests in a second.
	loadRate = 500
	// loadCells is the number of live cells that they go to.
	loadCells = 4
)

// daemonLoad sends requests at a steady rate, a quarter of each kind. A request's
// time begins when it is due, also if it is sent later.
func (b *bench) daemonLoad(ctx context.Context, s shape) (_ []row, err error) {
	d, err := b.serve(ctx, s)
	if err != nil {
		return nil, err
	}
	cells, err := d.fork(ctx, s.name, "load", loadCells)
	if err != nil {
		return nil, err
	}
	if err := d.startAll(ctx, cells); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.stopAll(ctx, cells)) }()
	length := time.Minute
	if b.quick {
		length = 5 * time.Second
	}
	// What the first requests allocate for good is no growth.
	if _, err := d.load(ctx, cells, length/10); err != nil {
		return nil, err
	}
	before, err := d.holds()
	if err != nil {
		return nil, err
	}
	took, err := d.load(ctx, cells, length)
	if err != nil {
		return nil, err
	}
	after, err := d.holds()
	if err != nil {
		return nil, err
	}
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	what := fmt.Sprintf("%d requests a second for %s, a quarter each `GET` of a cell, `exec` of `true`, file read, query of events", loadRate, length)
	return []row{
		{what, "p99 " + show(p99), "", "p50 " + show(took[len(took)/2]), "p99 below 50 ms", verdict(p99 < 50*time.Millisecond)},
		{
			"the same, memory and descriptors of the daemon", after.String(), before.String() + " before",
			fmt.Sprintf("%.2fx", float64(after.memory)/float64(before.memory)), "no growth", verdict(!after.grown(before)),
		},
	}, nil
}

// load sends requests for so long, and returns how long each took.
func (d *daemon) load(ctx context.Context, cells []string, length time.Duration) ([]time.Duration, error) {
	n := int(length.Seconds() * loadRate)
	took, failed := make([]time.Duration, n), make([]error, n)
	var all sync.WaitGroup
	begin := time.Now()
	for i := range n {
		due := begin.Add(time.Duration(i) * time.Second / loadRate)
		time.Sleep(time.Until(due))
		all.Go(func() {
			failed[i] = d.kind(ctx, i, cells[i/4%len(cells)])
			took[i] = time.Since(due)
		})
	}
	all.Wait()
	return took, errors.Join(failed...)
}

// kind sends one request of the mix.
func (d *daemon) kind(ctx context.Context, i int, cell string) error {
	at := "/v1/cells/" + cell
	switch i % 4 {
	case 0:
		return d.do(ctx, "GET", at, nil, nil)
	case 1:
		return d.do(ctx, "POST", at+"/exec", runsTrue, nil)
	case 2:
		return d.do(ctx, "GET", at+"/files?path=d0/f0", nil, nil)
	default:
		return d.do(ctx, "GET", "/v1/events?action=denied&cell="+cell, nil, nil)
	}
}

// holdings are the memory and descriptors of a process.
type holdings struct {
	memory      int64
	descriptors int
}

func (h holdings) String() string {
	return fmt.Sprintf("%s, %d descriptors", mebibytes(h.memory), h.descriptors)
}

// grown allows a tenth of the memory, which collections do not always free, and the
// descriptors of one connection for each processor.
func (h holdings) grown(before holdings) bool {
	return h.memory > before.memory*11/10 || h.descriptors > before.descriptors+8
}

// holds looks at the daemon at rest, without the connections that the client keeps.
func (d *daemon) holds() (h holdings, err error) {
	d.client.CloseIdleConnections()
	time.Sleep(10 * rest)
	pid := d.cmd.Process.Pid
	if h.memory, err = kilobytes(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:"); err != nil {
		return h, err
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	h.descriptors = len(open)
	return h, err
}

// fork makes n forks of a cell and returns their names.
func (d *daemon) fork(ctx context.Context, cell, name string, n int) (names []string, err error) {
	for k := range n {
		names = append(names, fmt.Sprintf("%s-%d", name, k+1))
	}
	return names, d.do(ctx, "POST", "/v1/cells/"+cell+"/fork", map[string]any{"name": name, "n": n}, nil)
}

func (d *daemon) startAll(ctx context.Context, cells []string) error {
	return inParallel(len(cells), 8, func(k int) error {
		return d.do(ctx, "POST", "/v1/cells/"+cells[k]+"/start", map[string]any{}, nil)
	})
}

func (d *daemon) stopAll(ctx context.Context, cells []string) error {
	return inParallel(len(cells), 8, func(k int) error { return d.stop(ctx, cells[k]) })
}

// daemonIdle looks at the memory of many live cells: the proportional set of their
// processes, and what the daemon has grown by.
func (b *bench) daemonIdle(ctx context.Context, s shape) (_ []row, err error) {
	d, err := b.serve(ctx, s)
	if err != nil {
		return nil, err
	}
	n := b.cells
	var before memory
	if err := before.add(d.cmd.Process.Pid); err != nil {
		return nil, err
	}
	cells, err := d.fork(ctx, s.name, "idle", n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.stopAll(ctx, cells)) }()
	if err := d.startAll(ctx, cells); err != nil {
		return nil, err
	}
	total, err := d.occupied(ctx, cells)
	if err != nil {
		return nil, err
	}
	what, each := fmt.Sprintf("memory of each of %s live cells that are idle", number(n)), (total.proportional-before.proportional)/int64(n)
	if total.hidden {
		what, each = what+", resident, shared pages counted in full", (total.resident-before.resident)/int64(n)
	}
	return []row{limitRow(what, mebibytes(each), "below 8 MiB", each < 8<<20)}, nil
}

// occupied adds the memory of the daemon, and of the supervisor and the first process
// of each cell.
func (d *daemon) occupied(ctx context.Context, cells []string) (m memory, err error) {
	pids := []int{d.cmd.Process.Pid}
	for _, cell := range cells {
		var doc struct {
			Live struct {
				PID int `json:"pid"`
			} `json:"live"`
		}
		if err := d.do(ctx, "GET", "/v1/cells/"+cell, nil, &doc); err != nil {
			return m, err
		}
		inits, err := children(doc.Live.PID)
		if err != nil {
			return m, err
		}
		pids = append(append(pids, doc.Live.PID), inits...)
	}
	for _, pid := range pids {
		if err := m.add(pid); err != nil {
			return m, err
		}
	}
	return m, nil
}

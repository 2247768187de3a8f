package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

const (
	warmCell = "warm"
	// manyBranches is how many are made at once, and warmWidth how many are asked at a
	// time.
	manyBranches, warmWidth = 100, 8
	mebibyte                = 1 << 20
)

// branched has the fields of a branch that the cases need.
type branched struct {
	PauseUS  int64 `json:"pause_us"`
	Children []struct {
		Cell        string `json:"cell"`
		MemoryBytes int64  `json:"memory_bytes"`
	} `json:"children"`
}

// memory returns the proportional memory of each cell, on average.
func (r branched) memory() (total int64) {
	for _, c := range r.Children {
		total += c.MemoryBytes / int64(len(r.Children))
	}
	return total
}

// forkCost is what bare forks of an interpreter used.
type forkCost struct {
	Wall   time.Duration `json:"wall"`
	CPU    time.Duration `json:"cpu"` // of each
	Memory int64         `json:"memory"`
}

// bareForks is a program that forks itself. Each copy answers one question and stays
// until all have answered.
const bareForks = `
import json, os, resource, sys, time
__import__(sys.argv[1])
def spent():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
n = int(sys.argv[2])
stay, leave = os.pipe()
cpu, begin, waiting = spent(), time.monotonic(), []
for _ in range(n):
    answer, end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(leave)
        os.write(end, str(eval("1 + 1")).encode())
        os.read(stay, 1)
        os._exit(0)
    os.close(end)
    waiting.append((pid, answer))
for _, answer in waiting:
    os.read(answer, 1)
wall, memory = time.monotonic() - begin, 0
for pid, _ in waiting:
    with open(f"/proc/{pid}/smaps_rollup") as f:
        memory += next(int(line.split()[1]) << 10 for line in f if line.startswith("Pss:"))
os.close(leave)
for _ in waiting:
    os.wait()
print(json.dumps({"wall": int(wall * 1e9), "cpu": int((spent() - cpu) / n * 1e9), "memory": memory // n}))
`

// interpreter is the Python of cells, whatever PATH has first: bare forks and fresh starts
// are of the same program.
const interpreter = "/usr/bin/python3"

// caseModule returns the module that the interpreters of the cases load: numpy, or if the
// host does not have it, json.
func caseModule(ctx context.Context) string {
	if exec.CommandContext(ctx, interpreter, "-c", "import numpy").Run() == nil {
		return "numpy"
	}
	progress(interpreter + " has no numpy; its interpreters load json instead")
	return "json"
}

// warm measures branches of a warm interpreter, through the daemon.
func (b *bench) warm(ctx context.Context, s shape) (_ []row, err error) {
	module := caseModule(ctx)
	d, err := b.serve(ctx, s)
	if err != nil {
		return nil, err
	}
	start := map[string]any{"env": map[string]string{"OPENBLAS_NUM_THREADS": "1"}, "warm": map[string]any{"python": map[string]any{"program": interpreter, "modules": []string{module}}}}
	if err := d.do(ctx, "POST", "/v1/cells/"+s.name+"/fork", map[string]any{"name": warmCell}, nil); err != nil {
		return nil, err
	}
	if err := d.do(ctx, "POST", "/v1/cells/"+warmCell+"/start", start, nil); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.stop(ctx, warmCell)) }()
	one, err := d.warmOne(ctx)
	if err != nil {
		return nil, err
	}
	many, err := d.warmMany(ctx, module)
	return append(one, many...), err
}

// warmOne measures one branch until it answers, and a question to it.
func (d *daemon) warmOne(ctx context.Context) ([]row, error) {
	var branches, evals []time.Duration
	for range d.b.times(20, 8) {
		time.Sleep(rest)
		begin := time.Now()
		made, err := d.branch(ctx, "one", 1)
		if err == nil {
			err = d.ask(ctx, made.Children[0].Cell)
		}
		branches = append(branches, time.Since(begin))
		for range 20 {
			if err != nil {
				return nil, err
			}
			begin := time.Now()
			err = d.ask(ctx, made.Children[0].Cell)
			evals = append(evals, time.Since(begin))
		}
		if err = errors.Join(err, d.remove(ctx, made)); err != nil {
			return nil, err
		}
	}
	first, eval := median(branches), median(evals)
	return []row{
		limitRow("`branch` of a warm interpreter to its first answer", show(first), "below 15 ms", first < 15*time.Millisecond),
		limitRow("`eval` in a branch", show(eval), "below 2 ms", eval < 2*time.Millisecond),
	}, nil
}

// warmMany measures many branches that each answer one question, beside bare forks of
// the same interpreter and fresh sandboxes.
func (d *daemon) warmMany(ctx context.Context, module string) ([]row, error) {
	var walls, cpus, bareWalls, bareCPUs, fresh []time.Duration
	var memories, bareMemories []int64
	for range d.b.times(5, 3) {
		wall, cpu, memory, err := d.hundredBranches(ctx)
		if err != nil {
			return nil, err
		}
		bare, err := bareFork(ctx, module)
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		sandbox := append(bwrap()[:len(bwrap())-1], interpreter, "-c", "import "+module)
		err = inParallel(manyBranches, warmWidth, func(int) error {
			_, err := d.b.peer(ctx, "bwrap", sandbox...)
			return err
		})
		if err != nil {
			return nil, err
		}
		walls, cpus, memories = append(walls, wall), append(cpus, cpu), append(memories, memory)
		bareWalls, bareCPUs, bareMemories = append(bareWalls, bare.Wall), append(bareCPUs, bare.CPU), append(bareMemories, bare.Memory)
		fresh = append(fresh, time.Since(begin))
	}
	more := float64(median(memories)-median(bareMemories)) / mebibyte
	what := fmt.Sprintf("%d branches of Python with %s, each answers one `eval`", manyBranches, module)
	return []row{
		ratioRow(what, "bare `os.fork`", median(walls), median(bareWalls), 4),
		fasterRow(what, fmt.Sprintf("%d `bwrap ... python3 -c 'import %s'`", manyBranches, module), median(walls), median(fresh), 20),
		infoRow("processor time of each of them", "bare `os.fork`", median(cpus), median(bareCPUs)),
		limitRow("proportional memory of each, beyond that of a bare fork", fmt.Sprintf("%.1f MiB", more), "below 3 MiB", more < 3),
	}, nil
}

// hundredBranches makes many branches, and asks each a question. cpu is the processor
// time for each, of the daemon, the supervisor and the cells.
func (d *daemon) hundredBranches(ctx context.Context) (wall, cpu time.Duration, memory int64, err error) {
	var status struct {
		Live struct {
			PID int `json:"pid"`
		} `json:"live"`
	}
	if err := d.do(ctx, "GET", "/v1/cells/"+warmCell, nil, &status); err != nil {
		return 0, 0, 0, err
	}
	before, err := treeTime(d.cmd.Process.Pid, status.Live.PID)
	if err != nil {
		return 0, 0, 0, err
	}
	begin := time.Now()
	made, err := d.branch(ctx, "many", manyBranches)
	if err == nil {
		err = inParallel(manyBranches, warmWidth, func(i int) error { return d.ask(ctx, made.Children[i].Cell) })
	}
	wall = time.Since(begin)
	if err != nil {
		return 0, 0, 0, err
	}
	after, err := treeTime(d.cmd.Process.Pid, status.Live.PID)
	return wall, (after - before) / manyBranches, made.memory(), errors.Join(err, d.remove(ctx, made))
}

func (d *daemon) branch(ctx context.Context, name string, n int) (made branched, err error) {
	return d.branchOf(ctx, warmCell, name, n)
}

func (d *daemon) branchOf(ctx context.Context, cell, name string, n int) (made branched, err error) {
	err = d.do(ctx, "POST", "/v1/cells/"+cell+"/branch", map[string]any{"name": name, "n": n}, &made)
	return made, err
}

// ask has a branch answer a question.
func (d *daemon) ask(ctx context.Context, cell string) error {
	var answer struct {
		Value string `json:"value"`
	}
	err := d.do(ctx, "POST", "/v1/cells/"+cell+"/eval", map[string]any{"code": "1 + 1"}, &answer)
	if err == nil && answer.Value != "2" {
		err = fmt.Errorf("the cell %s answered %q", cell, answer.Value)
	}
	return err
}

// remove ends and removes branches.
func (d *daemon) remove(ctx context.Context, made branched) error {
	return inParallel(len(made.Children), warmWidth, func(i int) error {
		return d.do(ctx, "DELETE", "/v1/cells/"+made.Children[i].Cell+"?force=true", nil, nil)
	})
}

func bareFork(ctx context.Context, module string) (f forkCost, err error) {
	cmd := exec.CommandContext(ctx, interpreter, "-c", bareForks, module, strconv.Itoa(manyBranches))
	cmd.Env, cmd.Stderr = append(os.Environ(), "OPENBLAS_NUM_THREADS=1"), os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &f)
	}
	return f, err
}

// treeTime returns the processor time of processes, of all that descend from them, and
// of those that these have waited for.
// Each counts once: a supervisor is also a child of the daemon that started it.
func treeTime(pids ...int) (total time.Duration, err error) {
	counted := map[int]bool{}
	for len(pids) > 0 {
		pid := pids[len(pids)-1]
		pids = pids[:len(pids)-1]
		if counted[pid] {
			continue
		}
		counted[pid] = true
		own, err := processorTime(pid)
		if err != nil {
			return 0, err
		}
		waited, err := waitedTime(pid)
		if err != nil {
			return 0, err
		}
		total += own + waited
		below, err := children(pid)
		if err != nil {
			return 0, err
		}
		pids = append(pids, below...)
	}
	return total, nil
}

// waitedTime returns the processor time of the children that a process has waited for.
// The kernel counts it in hundredths of a second.
func waitedTime(pid int) (total time.Duration, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const user, system = 13, 14 // cutime and cstime, after the name
	if len(fields) <= system {
		return 0, fmt.Errorf("process %d: malformed stat", pid)
	}
	for _, f := range fields[user : system+1] {
		ticks, err := strconv.Atoi(string(f))
		if err != nil {
			return 0, err
		}
		total += time.Duration(ticks) * 10 * time.Millisecond
	}
	return total, nil
}

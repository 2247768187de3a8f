package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// BenchmarkBranch measures branches of a warm interpreter until each has answered,
// beside bare forks of the same interpreter. Trust the medians, and the processor time
// more than the time.
func BenchmarkBranch(b *testing.B) {
	for _, loaded := range []string{"json", "numpy"} {
		if out, err := exec.Command(interpreter, "-c", "import "+loaded).CombinedOutput(); err != nil {
			b.Logf("%s is left out: %s", loaded, out)
			continue
		}
		b.Run(loaded+"/1", func(b *testing.B) { benchBranches(b, loaded, 1) })
		b.Run(loaded+"/100", func(b *testing.B) { benchBranches(b, loaded, 100) })
		b.Run(loaded+"/bare100", func(b *testing.B) { benchForks(b, loaded, 100) })
	}
}

// benchBranches makes n branches of one template, as many at a time as there are
// processors.
func benchBranches(b *testing.B, loaded string, n int) {
	b.Helper()
	native := New(Options{})
	var took, spent []time.Duration
	for b.Loop() {
		cpu, wall, err := branches(b.Context(), native, loaded, n)
		if err != nil {
			b.Fatal(err)
		}
		took, spent = append(took, wall), append(spent, cpu/time.Duration(n))
	}
	report(b, took, spent)
}

// branches returns the processor time of this process and of the cells for a number of branches,
// and the time until the last of them has answered. Control groups count it.
func branches(ctx context.Context, n *Driver, loaded string, count int) (cpu, wall time.Duration, err error) {
	id := fmt.Sprintf("bench-%d-", os.Getpid())
	t, err := startSpec(ctx, n, driver.Spec{ID: id + "template", Template: true, Freezable: true}, warmCommand("import "+loaded+"\nserve()"), nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	begin, before := time.Now(), processorTime()+used(t)
	children, errs := make([]driver.Child, count), make([]error, count)
	var all sync.WaitGroup
	free := make(chan struct{}, runtime.NumCPU())
	for i := range count {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			b := driver.Branch{Number: i, Spec: driver.Spec{ID: id + fmt.Sprint(i), Freezable: true, Command: driver.Command{Workdir: "/"}}}
			children[i], errs[i] = t.Branch(ctx, b)
			if errs[i] == nil {
				_, errs[i] = children[i].Ask(ctx, []byte(`{"type": "eval", "code": "1 + 1"}`))
			}
		})
	}
	all.Wait()
	wall, cpu = time.Since(begin), processorTime()+used(t)-before
	for _, c := range children {
		if c != nil {
			cpu += used(c)
			errs = append(errs, c.Close())
		}
	}
	return cpu, wall, errors.Join(errs...)
}

// used is the processor time of a cell, or 0 on a host that does not count it.
func used(c driver.Cell) time.Duration {
	return time.Duration(max(c.Usage().CPUMicros, 0)) * time.Microsecond
}

// benchForks has an interpreter fork itself n times. Each copy answers on a pipe.
func benchForks(b *testing.B, loaded string, n int) {
	b.Helper()
	script := fmt.Sprintf(`
import os, resource, time, %s
def spent():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
cpu, begin, waiting = spent(), time.monotonic(), []
for _ in range(%d):
    answer, end = os.pipe()
    if os.fork() == 0:
        os.write(end, str(eval("1 + 1")).encode())
        os._exit(0)
    os.close(end)
    waiting.append(answer)
for answer in waiting:
    os.read(answer, 1)
took = time.monotonic() - begin
for _ in waiting:
    os.wait()
print(int(took * 1e9), int((spent() - cpu) * 1e9))`, loaded, n)
	var took, spent []time.Duration
	for b.Loop() {
		out, err := exec.Command(interpreter, "-c", script).Output()
		var wall, cpu time.Duration
		if err == nil {
			_, err = fmt.Sscan(string(out), &wall, &cpu)
		}
		if err != nil {
			b.Fatal(err)
		}
		took, spent = append(took, wall), append(spent, cpu/time.Duration(n))
	}
	report(b, took, spent)
}

// processorTime is that of this process.
func processorTime() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// report reports the medians, and the least time: that on a busy machine is near to what
// a quiet one needs.
func report(b *testing.B, took, spent []time.Duration) {
	b.Helper()
	slices.Sort(took)
	slices.Sort(spent)
	b.ReportMetric(float64(took[0].Microseconds()), "min-µs")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(spent[len(spent)/2].Microseconds()), "cpu-µs/child")
}

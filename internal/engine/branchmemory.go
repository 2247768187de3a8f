package engine

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// memoryOfAll returns the memory of each cell, counted at about the same time.
func memoryOfAll(cells []*liveRun) []int64 {
	list, next := make([]int64, len(cells)), atomic.Int64{}
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(cells)); i = next.Add(1) - 1 {
				list[i] = memoryOf(cells[i].cell)
			}
		})
	}
	all.Wait()
	return list
}

// memoryOf returns the memory of a cell's processes, with their share of what they
// have together with others; where the host does not tell, all of it.
func memoryOf(c driver.Cell) (total int64) {
	list, err := c.Processes()
	if err != nil {
		return 0
	}
	for _, p := range list {
		if share, ok := proportional(p.HostPID); ok {
			total += share
		} else {
			total += p.RSS
		}
	}
	return total
}

// proportional returns the memory of a process, with its share of shared pages.
func proportional(pid int) (int64, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "Pss:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")), 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}

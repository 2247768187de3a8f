package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// BenchmarkGroup is what a run pays: make a group with every limit, put a
// process in, remove the group.
func BenchmarkGroup(b *testing.B) {
	h := realHost(b, Options{}, Memory, CPU, PIDs)
	for _, add := range []bool{false, true} {
		b.Run(fmt.Sprintf("add=%v", add), func(b *testing.B) {
			for i := range b.N {
				g, err := h.Create(fmt.Sprintf("bench-%d-%d", os.Getpid(), i), Limits{Memory: 64 << 20, CPUsMilli: 500, PIDs: 50})
				if err != nil {
					b.Fatal(err)
				}
				if add {
					b.StopTimer()
					cmd := exec.Command("/bin/sleep", "600")
					if err := cmd.Start(); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
					err := g.Add(cmd.Process.Pid)
					b.StopTimer()
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
					if err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				if err := g.Remove(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDetect(b *testing.B) {
	for range b.N {
		if _, err := Detect(Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

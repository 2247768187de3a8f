package native

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/storage/mount"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// BenchmarkTrue measures a whole cell that runs true, with a workspace of one
// layer, beside bubblewrap doing less. Trust the medians.
func BenchmarkTrue(b *testing.B) {
	dir := b.TempDir()
	for _, d := range []string{"base", "pending/upper", "pending/work", "pending/tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	steps := map[string][]time.Duration{}
	var order []string
	n := New(Options{stepTimes: func(list []protocol.StepTime) {
		for _, l := range list {
			if steps[l.Step] == nil {
				order = append(order, l.Step)
			}
			steps[l.Step] = append(steps[l.Step], l.Took)
		}
	}})
	s := driver.Spec{
		Command: driver.Command{Args: []string{"true"}, Workdir: "/ws", Env: []string{"PATH=" + cellinit.DefaultPath}},
		Mounts: mount.Set{
			Binds: []mount.Bind{{Target: "/tmp", Source: filepath.Join(dir, "pending/tmp"), Owned: true}},
			Overlays: []mount.Overlay{{
				Target: "/ws", Lower: []string{filepath.Join(dir, "base")},
				Upper: filepath.Join(dir, "pending/upper"), Work: filepath.Join(dir, "pending/work"),
			}},
		},
	}
	b.Run("native", func(b *testing.B) {
		median(b, func() error {
			_, err := n.Run(b.Context(), s, driver.Stdio{})
			b.StopTimer()
			err = errors.Join(err, removeWork(filepath.Join(dir, "pending/work")))
			b.StartTimer()
			return err
		})
	})
	for _, step := range order {
		slices.Sort(steps[step])
		b.Logf("%6d µs  %s", steps[step][len(steps[step])/2].Microseconds(), step)
	}
	b.Run("bwrap", func(b *testing.B) {
		if _, err := exec.LookPath("bwrap"); err != nil {
			b.Skip("bubblewrap is not installed")
		}
		median(b, func() error {
			return exec.Command("bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true").Run()
		})
	})
}

// median reports the middle of the single times.
func median(b *testing.B, fn func() error) {
	b.Helper()
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		if err := fn(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
}

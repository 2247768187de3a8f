package workspace_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/storage/workspace/workspacetest"
)

// fillTree makes dirs directories of files small files, and some big ones.
func fillTree(b *testing.B, root string, dirs, files, big int) {
	b.Helper()
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i * 7)
	}
	for d := range dirs {
		dir := filepath.Join(root, fmt.Sprintf("d%04d", d))
		if err := os.Mkdir(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for f := range files {
			data[0], data[1] = byte(d), byte(f)
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%03d", f)), data[:1536], 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	for i := range big {
		if err := os.WriteFile(filepath.Join(root, fmt.Sprintf("big%02d", i)), data, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	unix.Sync()
}

// BenchmarkImport also measures a peer for comparison.
func BenchmarkImport(b *testing.B) {
	w := newWorld(b, workspace.BackendOverlay)
	w.open(workspace.Options{})
	fillTree(b, w.Source, 100, 60, 24)
	b.Run("forkcell", func(b *testing.B) {
		for b.Loop() {
			w.Import()
		}
	})
	b.Run("delta", func(b *testing.B) {
		for b.Loop() {
			d := newWorld(b, workspace.BackendDelta)
			d.open(workspace.Options{})
			d.Cell.Live = w.Source
			d.Source = w.Source
			d.Import()
		}
	})
	b.Run("cp", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
			if out, err := exec.Command("cp", "-a", w.Source, fmt.Sprintf("%s/copy%d", w.Home, n)).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
	b.Run("cp+sync", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
			to := fmt.Sprintf("%s/sync%d", w.Home, n)
			if out, err := exec.Command("sh", "-c", `cp -a "$0" "$1" && sync -f "$1"`, w.Source, to).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
}

// BenchmarkSeal seals 175 changes on trees of two sizes.
func BenchmarkSeal(b *testing.B) {
	for _, dirs := range []int{5, 100, 1000} {
		b.Run(fmt.Sprintf("%dx100", dirs), func(b *testing.B) {
			w := newWorld(b, workspace.BackendOverlay)
			w.open(workspace.Options{})
			fillTree(b, w.Source, dirs, 100, 0)
			base, _ := w.Import()
			peak := peakMemory(b)
			for b.Loop() {
				b.StopTimer()
				work := w.Begin(w.Cell, base.Layer)
				// What overlay would leave in the upper directory.
				for i := range 175 {
					dir := fmt.Sprintf("%s/workspace/d%04d", work.Dir(), i%5)
					if err := os.MkdirAll(dir, 0o755); err != nil {
						b.Fatal(err)
					}
					if err := os.WriteFile(fmt.Sprintf("%s/f%03d", dir, i/5), []byte(fmt.Sprint("changed", i, workspacetest.OpOf(work))), 0o644); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				if _, err := work.Seal(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(peak, "MiB-import")
		})
	}
}

// peakMemory returns the most memory that the process has used.
func peakMemory(b *testing.B) float64 {
	b.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	return 0
}

// BenchmarkIdle is what a run that changes nothing costs here.
func BenchmarkIdle(b *testing.B) {
	w := newWorld(b, workspace.BackendOverlay)
	w.open(workspace.Options{})
	fillTree(b, w.Source, 100, 60, 0)
	base, _ := w.Import()
	for b.Loop() {
		w.Seal(w.Begin(w.Cell, base.Layer))
	}
}

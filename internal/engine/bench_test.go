package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/local"
)

// BenchmarkRunTrue is a whole run, engine only: no process start, no flags.
func BenchmarkRunTrue(b *testing.B) {
	dir := b.TempDir()
	source := filepath.Join(dir, "src")
	if err := os.MkdirAll(source, 0o755); err != nil {
		b.Fatal(err)
	}
	e, release, err := local.Open(filepath.Join(dir, "home"), local.Create, tester())
	if err != nil {
		b.Fatal(err)
	}
	defer release()
	if _, err := e.Init(b.Context(), api.InitRequest{Name: "demo", From: source}); err != nil {
		b.Fatal(err)
	}
	sum := api.RunTimings{}
	for b.Loop() {
		res, err := e.Run(b.Context(), api.RunRequest{Cell: "demo", Args: []string{"true"}}, engine.Stdio{})
		if err != nil {
			b.Fatal(err)
		}
		sum.PrepareUS += res.Timings.PrepareUS
		sum.StartUS += res.Timings.StartUS
		sum.CommandUS += res.Timings.CommandUS
		sum.SealUS += res.Timings.SealUS
		sum.DecideUS += res.Timings.DecideUS
	}
	n := float64(b.N)
	b.ReportMetric(float64(sum.PrepareUS)/n, "prepare-µs")
	b.ReportMetric(float64(sum.StartUS)/n, "start-µs")
	b.ReportMetric(float64(sum.CommandUS)/n, "command-µs")
	b.ReportMetric(float64(sum.SealUS)/n, "seal-µs")
	b.ReportMetric(float64(sum.DecideUS)/n, "decide-µs")
}

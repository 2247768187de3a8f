package gvisor

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// BenchmarkGuest measures a whole run of true, and for a guest that holds so much
// memory: how long it stands still to be saved, and the time until a restored one has
// executed a first command.
func BenchmarkGuest(b *testing.B) {
	if os.Getenv(envRuntime) == "" {
		b.Skip("make test-gvisor builds the runtime")
	}
	d := New(Options{Runtime: os.Getenv(envRuntime)})
	s := driver.Spec{ID: "bench", Command: driver.Command{Args: []string{"true"}, Env: []string{"PATH=/usr/bin:/bin"}, Workdir: "/"}}
	b.Run("run", func(b *testing.B) {
		for b.Loop() {
			if o, err := d.Run(b.Context(), s, driver.Stdio{}); err != nil || o.Code != 0 {
				b.Fatalf("%+v, %v", o, err)
			}
		}
	})
	for name, size := range map[string]string{"20MB": "10000000", "120MB": "110000000"} {
		b.Run(name, func(b *testing.B) { benchSaved(b, d, s, size) })
	}
}

func benchSaved(b *testing.B, d *Driver, s driver.Spec, size string) {
	c, err := d.Start(b.Context(), s)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	ready := make(chan struct{})
	cmd := s.Command
	cmd.Args = []string{"python3", "-c", "import os, time; x = os.urandom(" + size + "); print('ready', flush=True); time.sleep(1000)"}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.Exec(ctx, cmd, driver.Stdio{Out: onWrite(func() { close(ready) })})
	}()
	<-ready
	var pause, answer time.Duration
	var bytes int64
	for b.Loop() {
		dir := filepath.Join(b.TempDir(), "image")
		if err := os.Mkdir(dir, 0o700); err != nil {
			b.Fatal(err)
		}
		saved, err := c.(driver.Saver).Save(b.Context(), dir, func() error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		child, err := d.Restore(b.Context(), s, dir)
		if err != nil {
			b.Fatal(err)
		}
		if o, err := child.Exec(b.Context(), s.Command, driver.Stdio{}); err != nil || o.Code != 0 {
			b.Fatalf("%+v, %v", o, err)
		}
		answer += time.Since(begin)
		pause, bytes = pause+saved.Pause, saved.Bytes
		if err := child.Close(); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	<-ended
	b.ReportMetric(float64(pause.Milliseconds())/float64(b.N), "pause-ms/op")
	b.ReportMetric(float64(answer.Milliseconds())/float64(b.N), "answer-ms/op")
	b.ReportMetric(float64(bytes)/1e6, "MB")
}

// onWrite calls a function at the first write.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

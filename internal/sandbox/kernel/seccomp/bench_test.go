package seccomp

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkCall compares one cheap call without and with the filter. Kernels
// since 5.11 do not run the filter for calls that are always allowed; personality
// is one that they run it for.
func BenchmarkCall(b *testing.B) {
	f := build(b, native(b), Options{})
	for _, filtered := range []bool{false, true} {
		for _, name := range []string{"getpid", "personality"} {
			b.Run(fmt.Sprintf("%s/filter=%v", name, filtered), func(b *testing.B) {
				number := map[string]uintptr{"getpid": unix.SYS_GETPID, "personality": unix.SYS_PERSONALITY}[name]
				onThread(b, func() error {
					if filtered {
						if _, err := f.Install(0); err != nil {
							return err
						}
					}
					for b.Loop() {
						_, _, _ = unix.RawSyscall(number, 0xffffffff, 0, 0)
					}
					return nil
				})
			})
		}
	}
}

// BenchmarkNotified is one denied call that a listener answers.
func BenchmarkNotified(b *testing.B) {
	arch := native(b)
	f := build(b, arch, Options{Notify: Denials})
	var done <-chan served
	onThread(b, func() error {
		fd, err := f.Install(0)
		if err != nil {
			return err
		}
		done = serve(fd)
		for b.Loop() {
			_ = attempt(arch, "acct", [6]uint64{})
		}
		return nil
	})
	if s := <-done; s.err != nil {
		b.Error(s.err)
	}
}

// BenchmarkInstall is what a cell's start pays: the program and the call. It
// reports the median, as the kernel's part varies with its load.
func BenchmarkInstall(b *testing.B) {
	arch := native(b)
	for _, notify := range []Notify{0, Denials, Denials | Connects} {
		b.Run(fmt.Sprintf("notify=%d", notify), func(b *testing.B) {
			var times []time.Duration
			for range b.N {
				onThread(b, func() error {
					start := time.Now()
					f, err := Build(arch, Options{Notify: notify})
					if err != nil {
						return err
					}
					fd, err := f.Install(0)
					times = append(times, time.Since(start))
					if fd >= 0 {
						_ = unix.Close(fd)
					}
					return err
				})
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "p50-ns")
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	arch := native(b)
	for _, allow := range [][]string{nil, {"mount"}} {
		b.Run(fmt.Sprint(len(allow), " exceptions"), func(b *testing.B) {
			for b.Loop() {
				_, _ = Build(arch, Options{Allow: allow})
			}
		})
	}
}

package engine_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/receipt"
)

func degradedAllowed(r *api.RunRequest) { r.AllowDegraded = true }

// mapsAndWaits writes a file through a mapping, and then holds only the
// mapping.
const mapsAndWaits = `exec /usr/bin/python3 -c '
import ctypes, os, time
n = 8 << 20
c = ctypes.CDLL(None)
c.mmap.restype = ctypes.c_void_p
c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
fd = os.open("mapped", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, n)
at = c.mmap(None, n, 3, 1, fd, 0)
os.close(fd)
os.unlink("mapped")
ctypes.memset(at, 1, n)
time.sleep(10)
'`

// TestDiskLimit: the kernel has no such limit. The run is refused unless the
// operator accepts a limit that is only checked at intervals.
func TestDiskLimit(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		w.init("demo", backend)
		rule := ruledBy("version: 1\nlimits: {disk: 4MiB}\n")
		req := api.RunRequest{Cell: "demo", Args: []string{"true"}}
		rule(&req)
		_, err := w.e.Run(w.ctx, req, engine.Stdio{})
		w.refused(err, api.Refused, "disk")
		res, _ := w.sh("demo", "yes | head -c 100000; exec yes > big", rule, degradedAllowed, restoreOnFail)
		if res.Outcome != "killed" || res.ExitCode != 137 || res.Signal != 9 || res.Decision != "restored" || !strings.Contains(res.Error, "limit of 4194304 bytes") {
			w.Errorf("%+v", res)
		}
		if len(res.Degraded) == 0 || res.Events["denied"] != 1 {
			w.Errorf("degraded %v, events %v", res.Degraded, res.Events)
		}
		watched := func(r *api.RunRequest) { r.WatchDisk = true }
		if res, _ := w.sh("demo", "exec yes > big", rule, watched, restoreOnFail); res.Outcome != "killed" || len(res.Degraded) == 0 {
			w.Errorf("with a limit that is looked at: %+v", res)
		}
		if res, _ := w.sh("demo", "head -c 1000000 /dev/zero > small", rule, degradedAllowed); res.Outcome != "succeeded" {
			w.Errorf("below the limit: %+v", res)
		}
		w.sound("demo")
	})
}

// TestDiskLimitOfNameless: files without a name count while a descriptor or a
// mapping holds them. Memory does not count. Removed files of the state before
// do not count either, because they take no more space.
func TestDiskLimitOfNameless(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		w.init("demo", backend)
		w.sh("demo", "head -c 8000000 /dev/zero > base")
		rule := ruledBy("version: 1\nlimits: {disk: 4MiB}\n")
		scripts := map[string]string{
			"exec 3>gone && rm gone && head -c 8000000 /dev/zero >&3 && sleep 10":                  "killed",
			"exec 3>/tmp/gone && rm /tmp/gone && head -c 8000000 /dev/zero >&3 && sleep 10":        "killed",
			"exec 3>/dev/shm/gone && rm /dev/shm/gone && head -c 8000000 /dev/zero >&3; sleep 0.6": "succeeded",
			"exec 3<base && rm base && sleep 0.6":                                                  "succeeded",
		}
		if _, err := os.Stat("/usr/bin/python3"); err == nil {
			scripts[mapsAndWaits] = "killed"
		}
		for script, want := range scripts {
			res, _ := w.sh("demo", script, rule, degradedAllowed, restoreOnFail)
			if res.Outcome != want || want == "killed" && !strings.Contains(res.Error, "limit of 4194304 bytes") || len(res.Notes) != 0 {
				w.Errorf("%s: %+v", script, res)
			}
		}
	})
}

// TestOutputLimit: the streamed output is whole; the stored output is cut, and
// the result says so.
func TestOutputLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	res, out := w.sh("demo", "yes x | head -n 5000", ruledBy("version: 1\nlimits: {output: 1KiB}\n"))
	if len(out) != 10000 || res.Outcome != "succeeded" {
		t.Fatalf("%d bytes, %+v", len(out), res)
	}
	if len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "only 1024 of 10000 bytes of stdout are stored: the limit is 1024 bytes") {
		t.Errorf("notes %q", res.Notes)
	}
	stdout, _, err := w.e.Logs(w.ctx, "demo", res.RunID)
	w.ok(err)
	defer stdout.Close()
	stored, err := io.ReadAll(stdout)
	w.ok(err)
	if string(stored) != strings.Repeat("x\n", 512) {
		t.Errorf("%d bytes are stored", len(stored))
	}
	w.sound("demo")
}

// TestOutputDefault: without a limit of its own a run stores 64 MiB of each stream.
// The operator sets another limit, which a policy can lower but not raise. The receipt
// has the length of the whole stream.
func TestOutputDefault(t *testing.T) {
	t.Parallel()
	const whole, half = int64(api.DefaultOutputLimit), int64(512 << 10)
	policy := func(limit string) func(*api.RunRequest) {
		return ruledBy("version: 1\nlimits: {output: " + limit + "}\n")
	}
	operator := func(n int64) func(*api.RunRequest) { return func(r *api.RunRequest) { r.OutputLimit = n } }
	for name, c := range map[string]struct {
		change       []func(*api.RunRequest)
		wrote, holds int64
	}{
		"default":         {nil, whole + 1000, whole},
		"policy lowers":   {[]func(*api.RunRequest){policy("512KiB")}, 2 * half, half},
		"policy raises":   {[]func(*api.RunRequest){policy("1GiB")}, whole + 1000, whole},
		"operator lowers": {[]func(*api.RunRequest){operator(half)}, 2 * half, half},
		"operator raises": {[]func(*api.RunRequest){operator(2 * whole)}, whole + 1000, whole + 1000},
		"both":            {[]func(*api.RunRequest){operator(2 * half), policy("512KiB")}, 2 * half, half},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.init("demo", "")
			req := api.RunRequest{Cell: "demo", Args: []string{"sh", "-c", fmt.Sprintf("head -c %d /dev/zero; echo err >&2", c.wrote)}}
			for _, change := range c.change {
				change(&req)
			}
			var shown counter
			res, err := w.e.Run(w.ctx, req, engine.Stdio{Out: &shown})
			w.ok(err)
			if int64(shown) != c.wrote || res.Outcome != "succeeded" {
				t.Fatalf("%d of %d bytes were shown: %+v", shown, c.wrote, res)
			}
			want := receipt.Log{Stream: "stdout", Bytes: c.holds}
			if c.holds < c.wrote {
				want.Truncated, want.Length = true, c.wrote
			}
			logs := w.receiptLogs(res.ReceiptID)
			if len(logs) != 2 || logs[1].Truncated || logs[1].Bytes != 4 {
				t.Fatalf("the other stream: %+v", logs)
			}
			if want.SHA256 = logs[0].SHA256; logs[0] != want {
				t.Errorf("the receipt has %+v, want %+v", logs[0], want)
			}
			w.sound("demo")
		})
	}
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func TestWallTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	rule := ruledBy("version: 1\nlimits: {wall_time: 50ms}\n")
	res, _ := w.sh("demo", "sleep 1000", rule, func(r *api.RunRequest) { r.Timeout = time.Hour })
	if res.Outcome != "timed_out" || res.ExitCode != 124 {
		t.Errorf("the policy is shorter: %+v", res)
	}
	res, _ = w.sh("demo", "sleep 1000", ruledBy("version: 1\nlimits: {wall_time: 1h}\n"), func(r *api.RunRequest) { r.Timeout = 50 * time.Millisecond })
	if res.Outcome != "timed_out" {
		t.Errorf("the flag is shorter: %+v", res)
	}
}

// TestOpenFiles is a limit of every process, and hard.
func TestOpenFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	_, out := w.sh("demo", "ulimit -Sn; ulimit -Hn; ulimit -n 100 2>/dev/null || echo refused", ruledBy("version: 1\nlimits: {open_files: 64}\n"))
	if out != "64\n64\nrefused\n" {
		t.Errorf("%q", out)
	}
}

// TestMemoryLimit: a process that takes more than its share is killed, and the
// result says why.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	limits := func(r *api.RunRequest) { r.Memory, r.PIDs, r.CPUs = 64<<20, 64, 500 }
	if os.Geteuid() != 0 {
		req := api.RunRequest{Cell: "demo", Args: []string{"true"}}
		limits(&req)
		_, err := w.e.Run(w.ctx, req, engine.Stdio{})
		if err == nil {
			return // a delegated control group
		}
		w.refused(err, api.Refused, "cannot be enforced here")
		res, _ := w.sh("demo", "true", limits, degradedAllowed)
		if len(res.Degraded) != 3 {
			t.Errorf("degraded: %v", res.Degraded)
		}
		return
	}
	res, out := w.sh("demo", "head -c 1000000000 /dev/zero | tail; echo over", limits)
	if res.Controls.Limits == "none asked for" || res.Events["denied"] == 0 {
		t.Errorf("%+v %q", res, out)
	}
	res, _ = w.sh("demo", "exec python3 -c 'x = bytearray(1 << 30)'", limits)
	if res.Outcome == "succeeded" || !strings.Contains(res.Error, "out of memory") {
		t.Errorf("%+v", res)
	}
	res, out = w.sh("demo", "i=0; while [ $i -lt 200 ]; do sleep 100 & i=$((i+1)); done; echo all", limits)
	if strings.Contains(out, "all") || res.Outcome == "succeeded" || !strings.Contains(res.Error, "out of processes") {
		t.Errorf("%+v %q", res, out)
	}
	w.sound("demo")
}

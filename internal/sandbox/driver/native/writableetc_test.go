package native

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/drivertest"
	"github.com/forkcell/forkcell/internal/storage/mount"
)

// TestWritableEtc: a directory of /etc that is writable has the cell's own files
// over the host's, with overlays of descriptors and of paths.
func TestWritableEtc(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		dir := drivertest.OpenDirectory(t)
		at := func(name string) string { return filepath.Join(dir, name) }
		for _, d := range []string{"cell", "cell/upper", "cell/work"} {
			if err := os.Mkdir(at(d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		var out, errs bytes.Buffer
		res, err := New(Options{ForceLegacyMounts: legacy}).Run(t.Context(), driver.Spec{
			Hostname: "etccell", Command: driver.Command{
				Args: []string{"sh", "-c", "cat /etc/passwd /etc/hosts; echo in > /etc/made && echo more >> /etc/passwd"}, Env: []string{"PATH=/usr/bin:/bin"}, Workdir: "/",
			},
			Guard: driver.Guard{LandlockBestEffort: true},
			Mounts: mount.Set{Overlays: []mount.Overlay{
				{Target: "/etc", Lower: []string{"/etc"}, Upper: at("cell/upper"), Work: at("cell/work"), HostLower: true},
			}},
		}, driver.Stdio{Out: &out, Err: &errs})
		if err != nil || res.Code != 0 {
			t.Fatalf("legacy %v: %+v, %v\n%s", legacy, res, err, &errs)
		}
		if text := out.String(); !strings.Contains(text, "\nsandbox:") || !strings.Contains(text, "localhost etccell") || strings.Contains(text, "\ndaemon:") {
			t.Errorf("legacy %v: the cell sees\n%s\n%s", legacy, text, &errs)
		}
		for _, name := range []string{"made", "passwd"} {
			if _, err := os.Stat(at("cell/upper/" + name)); err != nil {
				t.Errorf("legacy %v: %v", legacy, err)
			}
		}
	}
}

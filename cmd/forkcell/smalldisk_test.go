package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// onSmallDisk runs a shell script beside its own small file system, at
// $DISK, which holds the home of the program. An ordinary user's is in a user
// namespace; the script has no rights from that.
func onSmallDisk(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"disk", "src"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "src/file"), []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--mount", "sh", "-ec", `mount -t tmpfs -o size=96m,mode=700 disk "$DISK"; exec sh -ec "$0"`, script}
	if os.Geteuid() != 0 {
		args = []string{
			"--map-current-user", "--mount", "--keep-caps", "sh", "-ec",
			`mount -t tmpfs -o size=96m,mode=700 disk "$DISK"; exec setpriv --ambient-caps -all --inh-caps -all sh -ec "$0"`, script,
		}
	}
	cmd := exec.Command("unshare", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DISK="+filepath.Join(dir, "disk"), "FORKCELL_HOME="+filepath.Join(dir, "disk/home"), "HOME="+dir)
	cmd.Stderr = new(strings.Builder)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, cmd.Stderr)
	}
	return string(out)
}

// TestLiveEvidenceGap: the disk of a live cell is full for a while. The events and
// the output of that time that could not be stored are counted in its receipt.
func TestLiveEvidenceGap(t *testing.T) {
	t.Parallel()
	out := onSmallDisk(t, `
		forkcell init demo --from src >&2
		forkcell start demo >&2
		trap 'forkcell stop demo >&2 || true' EXIT
		forkcell exec demo -- echo before >&2
		dd if=/dev/zero of="$DISK/filler" bs=64k 2>/dev/null || true
		dd if=/dev/zero bs=1k 2>/dev/null >> "$DISK/filler" || true
		for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
			forkcell exec demo -- sh -c "seq 10000; exit $i" >/dev/null || test $? = $i
		done
		rm "$DISK/filler"
		forkcell exec demo -- echo after >&2
		forkcell stop demo >&2
		trap - EXIT
		forkcell receipt verify --all >&2
		forkcell receipt show --cell demo --latest --format json
	`)
	var doc struct {
		Receipt struct {
			Predicate struct {
				Degraded []string `json:"degraded"`
			} `json:"predicate"`
		} `json:"receipt"`
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(doc.Receipt.Predicate.Degraded, "\n")
	for _, want := range []string{`evidence: [1-9][0-9]* events could not be recorded`, `evidence: [1-9][0-9]* bytes of output could not be stored`} {
		if !regexp.MustCompile(want).MatchString(all) {
			t.Errorf("degraded is %q, want %q", all, want)
		}
	}
}

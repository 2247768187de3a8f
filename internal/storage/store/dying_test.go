package store

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestLockOfAKilledProcess takes a lock whose holder has died, as soon as the
// kernel has taken it away: a moment later.
func TestLockOfAKilledProcess(t *testing.T) {
	t.Parallel()
	s, err := Open(t.TempDir()+"/home", Create)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	held, err := s.LockCell(t.Context(), "cell_1", "demo", "run", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.LockCell(t.Context(), "cell_1", "demo", "run", 0); err == nil {
		t.Fatal("the lock of a process that lives was taken")
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	record, err := json.Marshal(Holder{PID: gone.Process.Pid, Cell: "demo", What: "run"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.sub("locks/cell-cell_1"), record, 0o600); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, held.Unlock)
	lock, err := s.LockCell(t.Context(), "cell_1", "demo", "run", 0)
	if err != nil {
		t.Fatalf("the lock of a dead process: %v", err)
	}
	lock.Unlock()
}

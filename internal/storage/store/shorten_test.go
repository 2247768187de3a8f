package store

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shortenHome names the home that TestLogStaysShort commits to in a process of
// its own.
const shortenHome = "FORKCELL_TEST_SHORTEN_HOME"

// TestLogStaysShort makes many processes that commit once, as most commands do.
// The write-ahead log that each of them reads first must not grow with their
// number, and one that somebody reads is not waited for.
func TestLogStaysShort(t *testing.T) {
	t.Parallel()
	if home := os.Getenv(shortenHome); home != "" {
		commitOnce(t, home)
		return
	}
	s := open(t)
	commit := func(n int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), busyTimeout/2)
		defer cancel()
		c := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestLogStaysShort$")
		// The race detector would make each process wait for a second at its end.
		c.Env = append(os.Environ(), shortenHome+"="+s.path, "GORACE=atexit_sleep_ms=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("commit %d: %v\n%s", n, err, out)
		}
	}
	size := func() int64 {
		t.Helper()
		log, err := os.Stat(s.sub(databaseName + logSuffix))
		if err != nil {
			t.Fatal(err)
		}
		return log.Size()
	}
	if err := s.CloseDatabase(); err != nil {
		t.Fatal(err)
	}
	const commits, room = 24, 16 * (4096 + 24)
	for n := range commits {
		if commit(n); size() > longLog+room {
			t.Fatalf("the write-ahead log has %d bytes after %d commits", size(), n+1)
		}
	}
	if err := s.OpenDatabase(); err != nil {
		t.Fatal(err)
	}
	err := s.View(func(tx *Tx) error {
		if _, err := tx.LastStatement(); err != nil {
			return err
		}
		for n := range commits {
			commit(n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if size() <= longLog {
		t.Fatalf("the write-ahead log has %d bytes though somebody read it", size())
	}
	if commit(0); size() > longLog {
		t.Errorf("the write-ahead log has %d bytes, and nobody reads it any more", size())
	}
}

// TestLogOfAProcessThatStays makes many commits in one process. Its log is begun anew
// from time to time, and is cut off at the end.
func TestLogOfAProcessThatStays(t *testing.T) {
	t.Parallel()
	s, err := Open(filepath.Join(t.TempDir(), "home"), Serve)
	if err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		t.Helper()
		log, err := os.Stat(s.sub(databaseName + logSuffix))
		if err != nil {
			t.Fatal(err)
		}
		return log.Size()
	}
	const frame, bound = 4096 + 24, 1100 // SQLite begins anew after 1,000
	longest := int64(0)
	for n := range 600 {
		if err := s.Note(func(tx *Tx) error {
			return tx.PutIntent("op-"+strconv.Itoa(n), "cell", "test", strings.Repeat("x", 9000))
		}); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, size())
	}
	if longest <= longLog || longest > bound*frame {
		t.Errorf("the write-ahead log had up to %d bytes, want between %d and %d", longest, longLog, bound*frame)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if size() > longLog {
		t.Errorf("the write-ahead log has %d bytes after the end", size())
	}
}

func commitOnce(t *testing.T, home string) {
	s, err := Open(home, Write)
	if err != nil {
		t.Fatal(err)
	}
	id := strconv.FormatInt(time.Now().UnixNano(), 10)
	if err := errors.Join(appendOne(s, id, nil), s.Close()); err != nil {
		t.Fatal(err)
	}
}

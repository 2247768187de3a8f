package store

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
)

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "home"), Create)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.CloseDatabase(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestPragmas: durability depends on SQLite's settings, so they are checked.
func TestPragmas(t *testing.T) {
	t.Parallel()
	s := open(t)
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal", "foreign_keys": "1"} {
		var got string
		err := s.View(func(tx *Tx) error {
			return tx.query(func(r *sqlite.Stmt) error {
				got = r.ColumnText(0)
				return nil
			}, "PRAGMA "+pragma)
		})
		if err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", pragma, got, err, want)
		}
	}
}

func appendOne(s *Store, id string, fail error) error {
	return s.Update(func(tx *Tx) error {
		_, err := tx.Append(Statement{ID: id, Kind: "cell"}, func(n Next) ([]byte, error) {
			return []byte(id + " after " + n.Prev), nil
		})
		return errors.Join(err, fail)
	})
}

// TestCreateAtOnce: of many who make a home at the same moment one makes it, and all use
// it.
func TestCreateAtOnce(t *testing.T) {
	t.Parallel()
	for range 30 {
		path := filepath.Join(t.TempDir(), "home")
		ids := make([]string, 8)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				s, err := Open(path, Create)
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = s.ID()
				if err := errors.Join(s.OpenDatabase(), s.CloseDatabase(), s.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(slices.Compact(slices.Clone(ids))) != 1 {
			t.Fatalf("homes %q", ids)
		}
	}
}

// TestLogOfARolledBackTransaction: a statement that was not committed is not
// read, and its number is used again.
func TestLogOfARolledBackTransaction(t *testing.T) {
	t.Parallel()
	s := open(t)
	broken := errors.New("rolled back")
	if err := appendOne(s, "one", nil); err != nil {
		t.Fatal(err)
	}
	if err := appendOne(s, "two", broken); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if err := appendOne(s, "three", nil); err != nil {
		t.Fatal(err)
	}
	data, err := s.ReadStatement(2)
	if err != nil || !strings.HasPrefix(string(data), "three after ") {
		t.Fatalf("statement 2 is %q, %v", data, err)
	}
	committed, tail, err := s.SeqsOnDisk()
	if err != nil || len(committed) != 2 || len(tail) != 0 {
		t.Fatalf("on disk are %v and %v, %v", committed, tail, err)
	}
}

// TestDatabaseBehindItsLog: an old copy of the database must not overwrite
// later statements.
func TestDatabaseBehindItsLog(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, id := range []string{"one", "two"} {
		if err := appendOne(s, id, nil); err != nil {
			t.Fatal(err)
		}
	}
	err := s.Update(func(tx *Tx) error { return tx.exec("DELETE FROM statements WHERE seq=2") })
	if err != nil {
		t.Fatal(err)
	}
	if err := appendOne(s, "forged", nil); !errors.Is(err, ErrDatabase) {
		t.Fatalf("got %v", err)
	}
}

// TestBlobBesideSweep: gc never removes a blob that a run has just begun.
func TestBlobBesideSweep(t *testing.T) {
	t.Parallel()
	s := open(t)
	stop, swept := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				swept <- nil
				return
			default:
				err = s.SweepTemps()
			}
		}
		swept <- err
	}()
	for range 2000 {
		b := s.NewBlob()
		if _, err := b.Write([]byte("x")); err != nil {
			t.Error(err)
			break
		}
		f, err := b.Reader()
		if err != nil {
			t.Error(err)
			break
		}
		_ = f.Close()
		b.Discard()
	}
	close(stop)
	if err := <-swept; err != nil {
		t.Error(err)
	}
}

func TestBlob(t *testing.T) {
	t.Parallel()
	s := open(t)
	b := s.NewBlob()
	if _, err := b.Write([]byte("kept")); err != nil {
		t.Fatal(err)
	}
	if err := s.SweepTemps(); err != nil {
		t.Fatal(err)
	}
	digest, err := b.Commit()
	if err != nil || digest != Digest([]byte("kept")) {
		t.Fatalf("%s, %v", digest, err)
	}
	if err := os.WriteFile(s.sub("blobs/sha256/"+digest[:2]+"/"+digest), []byte("kepT"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := s.OpenBlob(digest)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	buf := make([]byte, 16)
	for err == nil {
		_, err = r.Read(buf)
	}
	if !errors.Is(err, ErrDigest) {
		t.Fatalf("altered bytes: %v", err)
	}
	again := s.NewBlob()
	if _, err := again.Write([]byte("kept")); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Commit(); err != nil {
		t.Fatal(err)
	}
	whole, err := s.OpenBlob(digest)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	if text, err := io.ReadAll(whole); err != nil || string(text) != "kept" {
		t.Fatalf("stored again over altered bytes: %q, %v", text, err)
	}
}

func TestCellLock(t *testing.T) {
	t.Parallel()
	s := open(t)
	lock, err := s.LockCell(t.Context(), "c", "name", "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.LockCell(t.Context(), "c", "name", "other", 0)
	busy, ok := errors.AsType[*BusyError](err)
	if !ok || busy.Holder.PID != os.Getpid() || busy.Holder.What != "test" {
		t.Fatalf("got %v", err)
	}
	if _, held := s.CellHolder("c"); !held {
		t.Fatal("the holder is not seen")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.LockCell(ctx, "c", "name", "other", -1); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	lock.Unlock()
	again, err := s.LockCell(t.Context(), "c", "name", "other", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	again.Unlock()
	if _, held := s.CellHolder("c"); held {
		t.Fatal("a free cell has a holder")
	}
}

// TestEndingHolder: who finds a cell locked by somebody who is ending waits for that.
func TestEndingHolder(t *testing.T) {
	t.Parallel()
	s := open(t)
	lock, err := s.LockCell(t.Context(), "c", "name", "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	if h, held := s.CellHolder("c"); !held || h.Ending {
		t.Fatalf("before its end: %+v", h)
	}
	lock.End()
	if h, held := s.CellHolder("c"); !held || !h.Ending || h.What != "test" || h.PID != os.Getpid() {
		t.Fatalf("at its end: %+v", h)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.LockCell(ctx, "c", "name", "other", 0); !errors.Is(err, context.Canceled) {
		t.Fatalf("a caller that gives up does not wait: %v", err)
	}
	lock.Unlock()
	next, err := s.LockCell(t.Context(), "c", "name", "other", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Unlock()
	if h, _ := s.CellHolder("c"); h.Ending || h.What != "other" {
		t.Fatalf("after its end: %+v", h)
	}
}

func TestHomesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(home string) error
		want  error
	}{
		"mode":         {func(h string) error { return os.Chmod(h, 0o755) }, ErrPermission},
		"newer format": {func(h string) error { return os.WriteFile(h+"/home.json", []byte(`{"format":2,"home_id":"x"}`), 0o600) }, ErrNewer},
		"foreign files": {func(h string) error {
			return errors.Join(os.RemoveAll(h), os.Mkdir(h, 0o700), os.WriteFile(h+"/letter", nil, 0o600))
		}, ErrUnusable},
		"lost home.json":    {func(h string) error { return os.Remove(h + "/home.json") }, ErrDatabase},
		"damaged home.json": {func(h string) error { return os.WriteFile(h+"/home.json", []byte("{"), 0o600) }, ErrDatabase},
		"garbage database": {func(h string) error {
			return errors.Join(removeDatabase(h), os.WriteFile(h+"/forkcell.db", []byte(strings.Repeat("x", 5000)), 0o600))
		}, ErrDatabase},
		"lost database": {func(h string) error { return removeDatabase(h) }, ErrDatabase},
		"empty database": {func(h string) error {
			return errors.Join(removeDatabase(h), os.WriteFile(h+"/forkcell.db", nil, 0o600))
		}, ErrDatabase},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			if err := errors.Join(appendOne(s, "one", nil), c.spoil(s.Path())); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(s.Path(), Create); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
		})
	}
}

func removeDatabase(home string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(home + "/forkcell.db" + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// TestSeqsOnDisk: a statement without its final name counts if another one
// follows it.
func TestSeqsOnDisk(t *testing.T) {
	t.Parallel()
	s := open(t)
	for seq, committed := range map[int64]bool{1: true, 2: false, 3: true, 4: false, 5: false} {
		if err := s.writeStatement(seq, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if committed {
			s.publish([]int64{seq})
		}
	}
	committed, tail, err := s.SeqsOnDisk()
	if err != nil || !slices.Equal(committed, []int64{1, 2, 3}) || !slices.Equal(tail, []int64{4, 5}) {
		t.Errorf("%v, %v, %v", committed, tail, err)
	}
}

// TestStraysInLog: files that no statement is named like are none.
func TestStraysInLog(t *testing.T) {
	t.Parallel()
	s := open(t)
	if err := s.writeStatement(1, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	s.publish([]int64{1})
	if err := s.Dir().Mkdir("log/0000001", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README", "0000000/1.json", "0000000/+000000002.json", "0000000/-000000005.json", "0000000/0000000000.json", "0000001/0000000003.json", "0000000/0000000004.json.old"} {
		if err := os.WriteFile(s.sub("log/"+name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	committed, tail, err := s.SeqsOnDisk()
	if err != nil || !slices.Equal(committed, []int64{1}) || len(tail) != 0 {
		t.Errorf("%v, %v, %v", committed, tail, err)
	}
}

// TestNoPlaceForHome: where no home can be made, the error is not that there is none.
func TestNoPlaceForHome(t *testing.T) {
	t.Parallel()
	s, err := Open("/proc/none/home", Create)
	if err == nil {
		_ = s.Close()
	}
	if err == nil || errors.Is(err, ErrNoHome) {
		t.Error(err)
	}
}

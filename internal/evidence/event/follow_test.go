package event

import (
	"context"
	"errors"
	"os"
	"testing"
)

// follower runs Follow and passes on what it reads.
func follower(t *testing.T, ctx context.Context, name string) (records chan Record, done chan error) {
	t.Helper()
	records, done = make(chan Record, 100), make(chan error, 1)
	go func() {
		done <- Follow(ctx, name, func(r Record) error {
			records <- r
			if r.Class == AppLifecycle {
				return ErrStop
			}
			return nil
		})
	}()
	return records, done
}

func openJournal(t *testing.T) (string, *os.File, *Journal) {
	t.Helper()
	name := t.TempDir() + "/events.jsonl"
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return name, f, mustCreate(t, f, Options{})
}

func TestFollow(t *testing.T) {
	t.Parallel()
	name, f, j := openJournal(t)
	if err := j.Append(netEvent(Allowed, 1)); err != nil {
		t.Fatal(err)
	}
	records, done := follower(t, t.Context(), name)
	for i := range 20 {
		if r := <-records; r.Sequence != uint64(i+1) {
			t.Fatalf("record %d where %d should be", r.Sequence, i+1)
		}
		if err := j.Append(netEvent(Allowed, i+2)); err != nil {
			t.Fatal(err)
		}
	}
	<-records
	// A line that is written in two parts is one record.
	line, rec, err := j.finish(Lifecycle(Subject{}, RunStopped).rec)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]byte{line[:40], line[40:]} {
		if _, err := f.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if r := <-records; r.Sequence != rec.Sequence || r.Class != AppLifecycle {
		t.Errorf("%+v", r)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestFollowEnds(t *testing.T) {
	t.Parallel()
	t.Run("context", func(t *testing.T) {
		t.Parallel()
		name, _, j := openJournal(t)
		ctx, cancel := context.WithCancel(t.Context())
		records, done := follower(t, ctx, name)
		if err := j.Append(netEvent(Allowed, 1)); err != nil {
			t.Fatal(err)
		}
		<-records
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("removed", func(t *testing.T) {
		t.Parallel()
		name, _, j := openJournal(t)
		records, done := follower(t, t.Context(), name)
		if err := j.Append(netEvent(Allowed, 1)); err != nil {
			t.Fatal(err)
		}
		<-records
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("corrupt", func(t *testing.T) {
		t.Parallel()
		name, f, _ := openJournal(t)
		_, done := follower(t, t.Context(), name)
		if _, err := f.WriteString("rubbish\n"); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		if err := Follow(t.Context(), t.TempDir()+"/none", nil); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
}

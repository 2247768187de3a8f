package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// The journals of runs' events are grouped by the time in their ids, so that no
// directory grows without bound.
func eventsName(run string) (dir, file string, err error) {
	_, suffix, ok := strings.Cut(run, "_")
	if !ok || len(suffix) < 10 || strings.ContainsAny(run, "/.") {
		return "", "", fmt.Errorf("run id %q is not valid", run)
	}
	return "events/" + suffix[:5], run + ".jsonl", nil
}

// CreateEvents makes the file of a run's events.
func (s *Store) CreateEvents(run string) (*os.File, error) {
	dir, file, err := eventsName(run)
	if err != nil {
		return nil, err
	}
	if err := s.dir.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return s.dir.Create(dir+"/"+file, 0o600)
}

// OpenEvents opens the file of a run's events for reading.
func (s *Store) OpenEvents(run string) (*os.File, error) {
	dir, file, err := eventsName(run)
	if err != nil {
		return nil, err
	}
	return s.dir.OpenFile(dir + "/" + file)
}

// ReopenEvents opens the file of a run's events for completion.
func (s *Store) ReopenEvents(run string) (*os.File, error) {
	dir, file, err := eventsName(run)
	if err != nil {
		return nil, err
	}
	return s.dir.ReopenFile(dir + "/" + file)
}

// EventsPath returns the path of a run's events.
func (s *Store) EventsPath(run string) (string, error) {
	dir, file, err := eventsName(run)
	if err != nil {
		return "", err
	}
	return s.sub(dir + "/" + file), nil
}

// SyncEvents makes the name of a run's file durable.
func (s *Store) SyncEvents(run string) error {
	dir, _, err := eventsName(run)
	if err != nil {
		return err
	}
	return s.syncDirs(dir, "events")
}

// DropEvents removes the file of a run that never started.
func (s *Store) DropEvents(run string) error {
	dir, file, err := eventsName(run)
	if err != nil {
		return err
	}
	if err := s.dir.Remove(dir + "/" + file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

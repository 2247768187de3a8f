package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The journal of a daemon's requests is a row of files with numbers from 1.
const segmentsDir = "requests"

func segmentName(n int64) string { return fmt.Sprintf("%s/%010d.jsonl", segmentsDir, n) }

// Segments lists the numbers of the files, the oldest first.
func (s *Store) Segments() ([]int64, error) {
	names, err := s.names(segmentsDir)
	if err != nil {
		return nil, err
	}
	var list []int64
	for _, name := range names {
		if n, err := strconv.ParseInt(strings.TrimSuffix(name, ".jsonl"), 10, 64); err == nil && segmentName(n) == segmentsDir+"/"+name {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, nil
}

// CreateSegment makes a file of the journal, with a durable name.
func (s *Store) CreateSegment(n int64) (*os.File, error) {
	if err := s.dir.MkdirAll(segmentsDir, 0o700); err != nil {
		return nil, err
	}
	f, err := s.dir.Create(segmentName(n), 0o600)
	if err != nil {
		return nil, err
	}
	return f, s.syncDirs(segmentsDir)
}

// OpenSegment opens a file of the journal for reading.
func (s *Store) OpenSegment(n int64) (*os.File, error) { return s.dir.OpenFile(segmentName(n)) }

// SegmentPath returns the path of a file of the journal.
func (s *Store) SegmentPath(n int64) string { return s.sub(segmentName(n)) }

// DropSegment removes a file of the journal.
func (s *Store) DropSegment(n int64) error {
	if err := s.dir.Remove(segmentName(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

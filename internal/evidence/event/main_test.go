package event

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// memFile is a File in memory that can run out of space.
type memFile struct {
	data  []byte
	at    int64
	room  int // bytes that still fit; negative: no bound
	syncs int
	fail  error // of Sync
}

func newMemFile(data []byte) *memFile { return &memFile{data: bytes.Clone(data), room: -1} }

var errFull = errors.New("no space")

func (m *memFile) Read(p []byte) (int, error) {
	if m.at >= int64(len(m.data)) {
		return 0, io.EOF
	}
	n := copy(p, m.data[m.at:])
	m.at += int64(n)
	return n, nil
}

func (m *memFile) Write(p []byte) (int, error) {
	var err error
	if m.room >= 0 && len(p) > m.room {
		p, err = p[:m.room], errFull
	}
	if m.room >= 0 {
		m.room -= len(p)
	}
	m.data = append(m.data[:m.at], p...)
	m.at += int64(len(p))
	return len(p), err
}

func (m *memFile) Seek(off int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		off += int64(len(m.data))
	}
	m.at = off
	return off, nil
}

func (m *memFile) Truncate(n int64) error { m.data = m.data[:n]; return nil }

func (m *memFile) Sync() error { m.syncs++; return m.fail }

// fakeClock advances by step at each reading.
type fakeClock struct {
	now  time.Time
	step time.Duration
}

func (c *fakeClock) Now() time.Time {
	c.now = c.now.Add(c.step)
	return c.now
}

func newClock(step time.Duration) *fakeClock {
	return &fakeClock{time.UnixMilli(1_700_000_000_000).UTC(), step}
}

func testMeta() Meta {
	return Meta{Cell: "demo", CellID: "cell_1", Run: "run_01", Policy: "sha256:p1", Version: "1.2.3"}
}

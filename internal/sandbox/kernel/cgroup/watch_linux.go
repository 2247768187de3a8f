package cgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Kind is which limit an Event is about.
type Kind string

// The kinds of events.
const (
	OOMKill  Kind = "oom_kill"
	PIDsFull Kind = "pids_max"
)

// Event means that a limit was met.
type Event struct {
	Kind Kind
	// New is how often since the last event of this kind, Total since the start.
	New, Total int64
}

// watchedCounter is one counter whose growth is an Event.
type watchedCounter struct {
	kind Kind
	d    *dir
	file string
	key  string
	fd   int
	seen int64
}

// Watch calls fn for every limit that the cell meets, until ctx ends; then it
// looks once more, so that nothing that happened before is missed. It returns
// nil when ctx or the group's removal ended it. A group without these limits just waits.
func (g *Group) Watch(ctx context.Context, fn func(Event)) (err error) {
	var list []*watchedCounter
	defer func() {
		for _, w := range list {
			_ = unix.Close(w.fd)
		}
	}()
	for _, w := range g.counters() {
		if w.fd, err = w.d.open(w.file, unix.O_RDONLY); err != nil {
			return err
		}
		list = append(list, w)
	}
	oom, err := g.oomCounter()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(oom) }()
	wake, err := newWaker(ctx)
	if err != nil {
		return err
	}
	defer wake.close()
	var files, bells []int
	for _, w := range list {
		files = append(files, w.fd)
	}
	if oom >= 0 {
		bells = []int{oom}
	}
	for {
		if err := report(list, fn); err != nil {
			return ignoreRemoved(err)
		}
		if err := wake.wait(ctx, files, bells, g.lookAgain()); err != nil {
			if ctx.Err() == nil {
				return err
			}
			return ignoreRemoved(report(list, fn))
		}
		if oom >= 0 && takeEvents(oom) {
			awaitKill(ctx, list)
		}
	}
}

// ignoreRemoved drops the error of a group that was removed meanwhile: it counts nothing
// any more.
func ignoreRemoved(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

func (g *Group) counters() []*watchedCounter {
	var list []*watchedCounter
	if d := g.by[PIDs]; d != nil && d.has("pids.events") {
		list = append(list, &watchedCounter{kind: PIDsFull, d: d, file: "pids.events", key: "max"})
	}
	if d := g.by[Memory]; d != nil {
		file := "memory.events"
		if !d.v2 {
			file = "memory.oom_control"
		}
		list = append(list, &watchedCounter{kind: OOMKill, d: d, file: file, key: "oom_kill"})
	}
	return list
}

// lookAgain is how long a wait may take, in milliseconds. Kernels count the
// processes that version 1 refuses but do not wake those who wait for it, so
// there Watch looks now and then.
func (g *Group) lookAgain() int {
	if d := g.by[PIDs]; d != nil && !d.v2 {
		return 250
	}
	return -1
}

// oomCounter gives an event counter that version 1 raises when the group is out
// of memory, since its file does not wake a poll; -1 where it is not needed.
func (g *Group) oomCounter() (int, error) {
	d := g.by[Memory]
	if d == nil || d.v2 {
		return -1, nil
	}
	file, err := d.open("memory.oom_control", unix.O_RDONLY)
	if err != nil {
		return -1, err
	}
	// The kernel keeps what it needs of it.
	defer func() { _ = unix.Close(file) }()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("cgroup: eventfd: %w", err)
	}
	if err := d.write("cgroup.event_control", fmt.Sprintf("%d %d", fd, file)); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// takeEvents reads the pending events of the counter.
func takeEvents(fd int) bool {
	var buf [8]byte
	_, err := unix.Read(fd, buf[:])
	return err == nil
}

// awaitKill waits for the kill that follows the bell of version 1, which rings
// before it. There may be none, when memory came free in the meantime.
func awaitKill(ctx context.Context, list []*watchedCounter) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = backoff(ctx, func() (bool, error) {
		for _, w := range list {
			if w.kind != OOMKill {
				continue
			}
			n, err := w.count()
			return n > w.seen, err
		}
		return true, nil
	})
}

func (w *watchedCounter) count() (int64, error) {
	text, err := readFrom(w.fd)
	if err != nil {
		return 0, fmt.Errorf("cgroup: read %s/%s: %w", w.d.path, w.file, err)
	}
	values, err := parseKeyed(text)
	if err != nil {
		return 0, fmt.Errorf("cgroup: %s/%s: %w", w.d.path, w.file, err)
	}
	return values[w.key], nil
}

// report calls fn for each counter that has grown.
func report(list []*watchedCounter, fn func(Event)) error {
	for _, w := range list {
		n, err := w.count()
		if err != nil {
			return err
		}
		if n > w.seen {
			fn(Event{Kind: w.kind, New: n - w.seen, Total: n})
			w.seen = n
		}
	}
	return nil
}

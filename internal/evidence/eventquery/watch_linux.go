package eventquery

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// journalWatch finds new journals, which are files in the directories of a home's
// events.
type journalWatch struct {
	home    string
	fd      int // of notices, whose own Fd would make it blocking
	notices *os.File
	dirs    map[int32]string // by watch: "" is the home, "events", or one in it
	mask    uint32           // of the notices in the directories of journals
	// overflow is called when the kernel dropped notices.
	overflow func() error
}

// journalSuffix is how the names of journals end, after the run's id.
const journalSuffix = ".jsonl"

// requestsDir has the journal of a daemon's requests. Only the readers of changes
// watch it.
const requestsDir = "requests"

// journalMade are the notices about new names, journalWritten those about writes.
const (
	journalMade    = unix.IN_CREATE | unix.IN_MOVED_TO
	journalWritten = unix.IN_MODIFY | unix.IN_CLOSE_WRITE
)

func watchJournals(home string, mask uint32) (*journalWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	w := &journalWatch{home: home, fd: fd, notices: os.NewFile(uintptr(fd), "inotify"), dirs: map[int32]string{}, mask: mask}
	w.overflow = func() error { return errors.New("more runs began than the kernel could report") }
	// The journals that exist already are not new.
	if err := w.add("", func(string) error { return nil }); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *journalWatch) close() { _ = w.notices.Close() }

// path returns the path of a directory of the home. Only the program makes names in it.
func (w *journalWatch) path(dir string) string { return w.home + "/" + dir }

// add watches a directory and the directories in it. found is called for the journals
// that are there already.
func (w *journalWatch) add(dir string, found func(run string) error) error {
	mask := uint32(journalMade)
	if strings.HasPrefix(dir, "events/") || dir == requestsDir {
		mask = w.mask
	}
	id, err := unix.InotifyAddWatch(w.fd, w.path(dir), mask|unix.IN_ONLYDIR)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	w.dirs[int32(id)] = dir
	if dir == "" {
		if w.mask&journalWritten != 0 {
			if err := w.add(requestsDir, found); err != nil {
				return err
			}
		}
		return w.add("events", found)
	}
	entries, err := os.ReadDir(w.path(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if err := w.entry(dir, entry.Name(), found); err != nil {
			return err
		}
	}
	return nil
}

// entry handles a name in a watched directory.
func (w *journalWatch) entry(dir, name string, found func(run string) error) error {
	switch {
	case dir == "" && name == "events", dir == "" && name == requestsDir && w.mask&journalWritten != 0:
		return w.add(name, found)
	case dir == "events":
		return w.add("events/"+name, found)
	case dir != "" && strings.HasSuffix(name, journalSuffix):
		return found(strings.TrimSuffix(name, journalSuffix))
	}
	return nil
}

// each calls found for every journal that is made, until ctx ends.
func (w *journalWatch) each(ctx context.Context, found func(run string) error) error {
	stop := context.AfterFunc(ctx, func() { _ = w.notices.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 64*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
	for {
		n, err := w.notices.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("inotify: %w", err)
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			id := int32(binary.NativeEndian.Uint32(b))
			mask := binary.NativeEndian.Uint32(b[4:])
			end := min(unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(b[12:])), len(b))
			name := unix.ByteSliceToString(b[unix.SizeofInotifyEvent:end])
			b = b[end:]
			if mask&unix.IN_Q_OVERFLOW != 0 {
				if err := w.overflow(); err != nil {
					return err
				}
				continue
			}
			dir, watched := w.dirs[id]
			if !watched {
				continue
			}
			if err := w.entry(dir, name, found); err != nil {
				return err
			}
		}
	}
}

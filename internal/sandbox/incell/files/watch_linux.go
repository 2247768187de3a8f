package files

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
)

// maxWatched bounds the directories of one watch.
const maxWatched = 8192

const watchMask = unix.IN_CREATE | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// watcher reports changes in directories.
type watcher struct {
	out       *json.Encoder
	f         *os.File
	recursive bool
	dirs      map[int32]string // by their number, relative to the watched one
	top       string
	// from is the old path of a file that is being renamed, by the kernel's cookie.
	from   string
	cookie uint32
}

// watch writes an event for each change in a directory, until stdin ends. The first
// one says that the watch has begun.
func watch(out *json.Encoder, at string, recursive bool, stdin io.Reader) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("inotify_init1", err)
	}
	w := &watcher{out: out, f: os.NewFile(uintptr(fd), "inotify"), recursive: recursive, dirs: map[int32]string{}, top: at}
	defer w.f.Close()
	info, err := os.Stat(at)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return errNotDir
	}
	if err := w.add(""); err != nil {
		return err
	}
	if err := out.Encode(api.FileEvent{Event: "started"}); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		_ = w.f.Close()
	}()
	err = w.follow()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// add watches a directory, and with recursive those below it.
func (w *watcher) add(rel string) error {
	if len(w.dirs) >= maxWatched {
		return errTooMany
	}
	at := path.Join(w.top, rel)
	number, err := unix.InotifyAddWatch(int(w.f.Fd()), at, watchMask)
	if err != nil {
		return &fs.PathError{Op: "watch", Path: at, Err: err}
	}
	w.dirs[int32(number)] = rel
	if !w.recursive {
		return nil
	}
	names, err := os.ReadDir(at)
	if err != nil {
		return err
	}
	for _, d := range names {
		if d.IsDir() {
			if err := w.add(path.Join(rel, d.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// follow reports changes until the directory is gone or the watch ends.
func (w *watcher) follow() error {
	buf := make([]byte, 64<<10)
	for {
		n, err := w.f.Read(buf)
		if err != nil {
			return err
		}
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			number := int32(binary.NativeEndian.Uint32(rest))
			mask, cookie, size := binary.NativeEndian.Uint32(rest[4:]), binary.NativeEndian.Uint32(rest[8:]), binary.NativeEndian.Uint32(rest[12:])
			end := unix.SizeofInotifyEvent + int(size)
			name, _, _ := bytes.Cut(rest[unix.SizeofInotifyEvent:end], []byte{0})
			rest = rest[end:]
			if done, err := w.report(number, mask, cookie, string(name)); done || err != nil {
				return err
			}
		}
		if err := w.settle(); err != nil {
			return err
		}
	}
}

// report writes the event of one change. done means that the watched directory is
// gone.
func (w *watcher) report(number int32, mask, cookie uint32, name string) (done bool, err error) {
	dir, known := w.dirs[number]
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		return false, w.out.Encode(api.FileEvent{Event: "overflow"})
	case mask&unix.IN_IGNORED != 0:
		delete(w.dirs, number)
		return known && dir == "", nil
	case !known || mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0:
		return known && dir == "" && mask&unix.IN_MOVE_SELF != 0, nil
	}
	at := path.Join(dir, name)
	if mask&unix.IN_MOVED_FROM != 0 {
		if err := w.settle(); err != nil {
			return false, err
		}
		w.from, w.cookie = at, cookie
		return false, nil
	}
	e := api.FileEvent{Path: at}
	switch {
	case mask&unix.IN_MOVED_TO != 0 && w.cookie == cookie && w.from != "":
		e.Event, e.From, w.from = "renamed", w.from, ""
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		e.Event = "created"
	case mask&unix.IN_DELETE != 0:
		e.Event = "removed"
	default:
		e.Event = "modified"
	}
	if err := w.settle(); err != nil {
		return false, err
	}
	if w.recursive && mask&unix.IN_ISDIR != 0 && mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0 {
		if err := w.add(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return false, w.out.Encode(e)
}

// settle reports a file that was moved out of what is watched.
func (w *watcher) settle() error {
	if w.from == "" {
		return nil
	}
	e := api.FileEvent{Event: "removed", Path: w.from}
	w.from = ""
	return w.out.Encode(e)
}

package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Holder is the process that holds a cell's lock.
type Holder struct {
	PID   int       `json:"pid"`
	Cell  string    `json:"cell"` // its name, which cannot change meanwhile
	What  string    `json:"what"`
	Since time.Time `json:"since"`
	// Ending: what it does is over, and it records that.
	Ending bool `json:"ending,omitempty"`
}

// holderSize is longer than any description of a lock's holder.
const holderSize = 1024

// BusyError means that another process works on a cell.
type BusyError struct {
	Holder Holder
}

func (e *BusyError) Error() string {
	if e.Holder.PID == 0 {
		return "another process holds its lock"
	}
	return fmt.Sprintf("process %d (%s) has held its lock since %s",
		e.Holder.PID, e.Holder.What, e.Holder.Since.UTC().Format(time.RFC3339))
}

// Lock is held until Unlock, or until the process dies: the kernel releases it.
type Lock struct {
	f      *os.File
	holder Holder
}

// write writes the record of the holder. It is only for messages; a full disk must not
// stop a restore.
func (l *Lock) write() {
	data, err := json.Marshal(l.holder)
	if err == nil {
		// All records have the same length: truncating a file that was just
		// written waits for the disk.
		blanks := max(0, holderSize-len(data))
		_, err = l.f.WriteAt(append(data, bytes.Repeat([]byte(" "), blanks)...), 0)
	}
	if err != nil {
		_ = l.f.Truncate(0)
	}
}

// End marks a lock: its holder is about to unlock the cell.
func (l *Lock) End() {
	l.holder.Ending = true
	l.write()
}

// Unlock releases the lock.
func (l *Lock) Unlock() {
	if l != nil && l.f != nil {
		// Closing is not enough while another goroutine is between fork and
		// exec: the child still has the descriptor.
		_ = unix.Flock(int(l.f.Fd()), unix.LOCK_UN)
		_ = ofdLock(l.f, unix.F_OFD_SETLK, unix.F_UNLCK)
		_ = l.f.Close()
		l.f = nil
	}
}

// LockCell takes the lock for changes of a cell. It waits up to wait (negative:
// without a limit) for another holder, and a moment for one that is ending. name and
// what are shown to processes that find it locked.
func (s *Store) LockCell(ctx context.Context, id, name, what string, wait time.Duration) (*Lock, error) {
	if s.readOnly {
		return nil, ErrReadOnly
	}
	f, err := s.openLock("cell-" + id)
	if err != nil {
		return nil, err
	}
	err = waitForLock(ctx, f, wait)
	if errors.Is(err, unix.EAGAIN) {
		if h := readHolder(f); h.Ending || isExiting(h.PID) {
			err = waitForLock(ctx, f, exitingWait)
		}
	}
	if err != nil {
		holder := readHolder(f)
		_ = f.Close()
		if errors.Is(err, unix.EAGAIN) {
			return nil, &BusyError{Holder: holder}
		}
		return nil, err
	}
	l := &Lock{f: f, holder: Holder{PID: os.Getpid(), Cell: name, What: what, Since: time.Now().UTC()}}
	l.write()
	return l, nil
}

// exitingWait bounds the wait for a lock whose holder is ending or was killed. The kernel
// releases it when the last thread of the holder has ended, and any child that
// had not executed its program yet.
const exitingWait = 5 * time.Second

// isExiting reports whether a process has ended or is being killed.
func isExiting(pid int) bool {
	if pid <= 0 {
		return false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "State":
			if strings.HasPrefix(value, "Z") || strings.HasPrefix(value, "X") {
				return true
			}
		case "SigPnd", "ShdPnd":
			pending, err := strconv.ParseUint(value, 16, 64)
			if err == nil && pending&(1<<(unix.SIGKILL-1)) != 0 {
				return true
			}
		}
	}
	return false
}

// CellHolder returns the process that holds a cell's lock now, if one does. It
// waits for the end of one that was killed.
func (s *Store) CellHolder(id string) (Holder, bool) {
	f, err := os.Open(s.sub("locks/cell-" + id))
	if err != nil {
		return Holder{}, false
	}
	defer f.Close()
	for start := time.Now(); ; <-time.After(time.Millisecond) {
		// Asking must never take the lock.
		if ofdLock(f, unix.F_OFD_GETLK, unix.F_WRLCK) == nil {
			return Holder{}, false
		}
		holder := readHolder(f)
		if !isExiting(holder.PID) || time.Since(start) > exitingWait {
			return holder, true
		}
	}
}

// ofdLock sets, drops or queries a lock of the open file. Unlike a flock it can
// be queried without taking it. EAGAIN means that another process has it.
func ofdLock(f *os.File, command int, kind int16) error {
	lock := unix.Flock_t{Type: kind, Whence: io.SeekStart}
	for {
		err := unix.FcntlFlock(f.Fd(), command, &lock)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case command == unix.F_OFD_GETLK && lock.Type != unix.F_UNLCK:
			return unix.EAGAIN
		}
		return nil
	}
}

// The longest waits of LockHome. A process that waits for the home alone makes
// all others wait, so it gives up sooner.
const (
	homeWait  = 10 * time.Minute
	aloneWait = time.Minute
)

// ErrHomeBusy means that other processes held the home's lock for too long.
var ErrHomeBusy = errors.New("other commands are at work in this home")

// queueHome takes the home's lock in turn. Every process first takes a second
// lock, the turn, and keeps it until it has the first. So processes that come
// after one that waits for the exclusive lock wait behind it. On an error f is
// closed.
func (s *Store) queueHome(f *os.File, how int) error {
	// Without contention this is enough.
	turn, err := s.openLock("home-turn")
	if err != nil {
		_ = f.Close()
		return err
	}
	wait := homeWait
	if how == unix.LOCK_EX {
		wait = aloneWait
	}
	done := make(chan error, 1)
	take := func() {
		err := flock(turn, unix.LOCK_EX)
		if err == nil {
			err = flock(f, how)
		}
		_ = flock(turn, unix.LOCK_UN)
		_ = turn.Close()
		done <- err
	}
	if flock(turn, unix.LOCK_EX|unix.LOCK_NB) == nil && flock(f, how|unix.LOCK_NB) == nil {
		_ = flock(turn, unix.LOCK_UN)
		return turn.Close()
	}
	go take()
	select {
	case err = <-done:
	case <-time.After(wait):
		// Waiting for a lock cannot be cancelled: the lock is released when it
		// is granted.
		go func() {
			<-done
			_ = f.Close()
		}()
		return ErrHomeBusy
	}
	if err != nil {
		_ = f.Close()
	}
	return err
}

// LockHome protects the layers that cells share: it is shared for processes
// that add, and exclusive for those that delete.
func (s *Store) LockHome(exclusive bool) (*Lock, error) {
	if s.readOnly {
		return nil, ErrReadOnly
	}
	f, err := s.openLock("home")
	if err != nil {
		return nil, err
	}
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	if err := s.queueHome(f, how); err != nil {
		return nil, fmt.Errorf("lock the home: %w", err)
	}
	if err := s.checkDatabase(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return &Lock{f: f}, nil
}

func (s *Store) openLock(name string) (*os.File, error) {
	open := func() (*os.File, error) {
		return os.OpenFile(s.sub("locks/"+name), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	}
	f, err := open()
	if errors.Is(err, fs.ErrNotExist) { // the directory is lost
		if err = s.dir.MkdirAll("locks", 0o700); err == nil {
			f, err = open()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open a lock: %w", err)
	}
	return f, nil
}

func (s *Store) lockFile(name string, how int) (func(), error) {
	f, err := os.OpenFile(s.sub(name), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open a lock: %w", err)
	}
	if err := flock(f, how); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// waitForLock polls, because waiting for a lock cannot be cancelled. The first
// intervals are short: most holders end within milliseconds.
func waitForLock(ctx context.Context, f *os.File, wait time.Duration) error {
	start, step := time.Now(), 2*time.Millisecond
	for {
		err := ofdLock(f, unix.F_OFD_SETLK, unix.F_WRLCK)
		if !errors.Is(err, unix.EAGAIN) {
			return err
		}
		if wait >= 0 && time.Since(start) >= wait {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(step):
		}
		step = min(2*step, 100*time.Millisecond)
	}
}

func readHolder(f *os.File) Holder {
	var h Holder
	data := make([]byte, 4096)
	n, _ := f.ReadAt(data, 0)
	_ = json.Unmarshal(data[:n], &h)
	return h
}

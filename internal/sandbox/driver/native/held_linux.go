package native

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// HeldSpace returns the disk space of files without a name that processes of a cell
// hold by descriptors and mappings: removed ones, and those that never had one.
// Only files that were changed since the given time count: what else was removed
// is in a layer below, which takes no more space. Files in memory do not count.
//
// It is a look at processes that come and go. A file that is held by nothing but
// a message between sockets is not seen. Without the right to follow mappings,
// which only root has, what is mapped counts and not what the file takes.
func (n *Driver) HeldSpace(r driver.Record, since time.Time) (int64, error) {
	rec, ok := parseRecord(r)
	if !ok {
		return 0, errors.New("the record of the cell cannot be read")
	}
	return held(rec.PID, rec.Start, since)
}

func held(initPID int, start uint64, since time.Time) (int64, error) {
	proc, err := cellProc(initPID, start)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return 0, nil // nothing of the cell is left
	}
	if err != nil {
		return 0, err
	}
	defer unix.Close(proc)
	h := sumSizes{since: since, files: map[fileID]int64{}, mapped: map[uint64]int64{}}
	if err := h.skipMemory(initPID); err != nil {
		return 0, err
	}
	err = eachNumber(proc, ".", func(pid string) {
		// A process that ends meanwhile holds no files.
		_ = eachNumber(proc, pid+"/fd", func(fd string) { h.descriptor(proc, pid+"/fd/"+fd) })
		h.mappings(proc, pid)
	})
	return h.total(), err
}

// cellProc opens the /proc of a cell.
func cellProc(initPID int, start uint64) (int, error) {
	// The /proc of an ended process, or of another user's, could not be opened.
	if err := stillRuns(initPID, start); err != nil {
		return -1, err
	}
	root, err := unix.Open("/proc/"+strconv.Itoa(initPID)+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("the cell's root: %w", err)
	}
	defer unix.Close(root)
	proc, err := unix.Openat2(root, "proc", &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return -1, fmt.Errorf("the cell's /proc: %w", err)
	}
	if err := stillRuns(initPID, start); err != nil {
		_ = unix.Close(proc)
		return -1, err
	}
	return proc, nil
}

// stillRuns fails with ESRCH unless the process with that start time still
// runs. Its pid may belong to another process now, or it may have ended and not
// been reaped yet.
func stillRuns(pid int, start uint64) error {
	p, err := readStat(pid)
	if err != nil || p.ticks != start || p.State == "Z" || p.State == "X" {
		return errors.Join(err, unix.ESRCH)
	}
	return nil
}

// fileID names a file of the host.
type fileID struct{ dev, ino uint64 }

// sumSizes sums up the sizes of files, each counted once.
type sumSizes struct {
	since  time.Time
	memory []uint64 // devices of files in memory
	files  map[fileID]int64
	mapped map[uint64]int64 // by inode: how much is mapped of files that cannot be opened
}

// skipMemory finds the devices of files that no disk holds: those of memfd_create
// and of shared memory.
func (h *sumSizes) skipMemory(initPID int) error {
	fd, err := unix.MemfdCreate("forkcell", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("memory file: %w", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("memory file: %w", err)
	}
	h.memory = append(h.memory, st.Dev)
	if err := unix.Stat("/proc/"+strconv.Itoa(initPID)+"/root/dev/shm", &st); err == nil {
		h.memory = append(h.memory, st.Dev)
	}
	return nil
}

// descriptor examines the file behind a link of /proc, and reports whether it
// could.
func (h *sumSizes) descriptor(proc int, name string) bool {
	var st unix.Stat_t
	if err := unix.Fstatat(proc, name, &st, 0); err != nil {
		return false
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 0 || time.Unix(st.Ctim.Unix()).Before(h.since) {
		return true
	}
	if !slices.Contains(h.memory, st.Dev) {
		h.files[fileID{st.Dev, st.Ino}] = st.Blocks * 512
	}
	return true
}

// mappings examines the removed files that a process has mapped.
func (h *sumSizes) mappings(proc int, pid string) {
	fd, err := unix.Openat(proc, pid+"/maps", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), "maps")
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		m, ok := parseMapping(lines.Bytes())
		if !ok || slices.Contains(h.memory, m.dev) || h.descriptor(proc, fmt.Sprintf("%s/map_files/%x-%x", pid, m.from, m.to)) {
			continue
		}
		h.mapped[m.inode] = max(h.mapped[m.inode], int64(m.offset+m.to-m.from))
	}
}

// mapping is a line of maps about a removed file.
type mapping struct{ from, to, offset, dev, inode uint64 }

// parseMapping reads a line such as
// "7f00-7f10 r--s 00000000 08:01 42   /src/x (deleted)".
func parseMapping(line []byte) (m mapping, ok bool) {
	f := bytes.Fields(line)
	if len(f) < 7 || !bytes.HasSuffix(line, []byte(" (deleted)")) {
		return m, false
	}
	from, to, _ := bytes.Cut(f[0], []byte("-"))
	major, minor, _ := bytes.Cut(f[3], []byte(":"))
	var dev [2]uint64
	for _, n := range []struct {
		text []byte
		base int
		to   *uint64
	}{
		{from, 16, &m.from},
		{to, 16, &m.to},
		{f[2], 16, &m.offset},
		{major, 16, &dev[0]},
		{minor, 16, &dev[1]},
		{f[4], 10, &m.inode},
	} {
		v, err := strconv.ParseUint(string(n.text), n.base, 64)
		if err != nil {
			return m, false
		}
		*n.to = v
	}
	m.dev = unix.Mkdev(uint32(dev[0]), uint32(dev[1]))
	return m, m.inode != 0 && m.to > m.from
}

func (h *sumSizes) total() (sum int64) {
	for id, n := range h.files {
		sum += n
		delete(h.mapped, id.ino)
	}
	for _, n := range h.mapped {
		sum += n
	}
	return sum
}

// eachNumber calls f with the names in a directory that are numbers.
func eachNumber(at int, name string, f func(name string)) error {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, n := range names {
		if n[0] >= '0' && n[0] <= '9' {
			f(n)
		}
	}
	return err
}

package native

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// copyCheck looks at a copy of a warm process from outside: it has put its controls
// on itself, and nothing is taken on its word. Landlock cannot be seen.
type copyCheck struct {
	child   *child
	pid     int
	filters int      // of system calls that it must have
	allowed []fileID // of its descriptors
	inside  int      // its number in the template
}

// run returns the first thing that is not as it must be, or else the number that the
// copy has in the template.
func (k *copyCheck) run() (inside int, err error) {
	for _, check := range []func() error{k.status, k.family, k.namespaces, k.directories, k.mappings, k.descriptors, k.checkAlone} {
		if err := check(); err != nil {
			return 0, err
		}
	}
	return k.inside, nil
}

func (k *copyCheck) file(name string) string { return fmt.Sprintf("/proc/%d/%s", k.pid, name) }

// status checks what the kernel says about its rights.
func (k *copyCheck) status() error {
	data, err := readProc(k.file("status"))
	if err != nil {
		return err
	}
	id := k.child.id
	uid, gid := id.UID, id.GID
	if id.Root {
		uid, gid = idBase+uid, idBase+gid
	}
	none := strings.Repeat("0", 16)
	want := map[string]string{
		"Uid": repeat(uid), "Gid": repeat(gid), "Threads": "1", "TracerPid": "0",
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none,
		"NoNewPrivs": "1", "Seccomp": "2", "Seccomp_filters": strconv.Itoa(k.filters),
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.Join(strings.Fields(value), " ")
		if must, ok := want[name]; ok && value != must {
			return fmt.Errorf("%s is %s instead of %s", name, value, must)
		}
		delete(want, name)
		// Its numbers on the host, ..., in the template, and in the cell.
		if f := strings.Fields(value); name == "NSpid" && len(f) > 2 {
			k.inside, _ = strconv.Atoi(f[len(f)-2])
		}
	}
	if k.inside == 0 {
		return errors.New("its number in the template is unknown")
	}
	delete(want, "Seccomp_filters") // kernels before 5.9 do not count them
	for name := range want {
		return fmt.Errorf("%s is unknown", name)
	}
	return nil
}

// errForeignParent is the error of a copy whose end would not be reported, and which its cell
// would wait for: its parent stands still.
var errForeignParent = errors.New("its parent is not the first process of the template")

// family checks that it is in a session of its own, so that it shares no process group
// with the template, and that the cell has no other process yet. One that was forked
// before it has joined would have the template's rights, and not stop with the template.
func (k *copyCheck) family() error {
	p, err := readStat(k.pid)
	if err != nil {
		return err
	}
	if p.parent != k.child.template.pid {
		return errForeignParent
	}
	if p.session != k.pid {
		return errors.New("it has no session of its own")
	}
	for _, pid := range []int{k.pid, k.child.pid} {
		f, ok, err := familyOf(pid)
		if err != nil {
			return err
		}
		if !ok || len(f.children) > 0 {
			return fmt.Errorf("the cell has other processes: %v", f.children)
		}
	}
	return nil
}

// repeat is how the kernel shows the four ids of a process that are all the same.
func repeat(id int) string {
	return strings.TrimSpace(strings.Repeat(strconv.Itoa(id)+" ", 4))
}

// namespaces checks that it is in those of its cell.
func (k *copyCheck) namespaces() error {
	for i, name := range protocol.JoinOrder() {
		var own, cell unix.Stat_t
		if err := unix.Stat(k.file("ns/"+name), &own); err != nil {
			return fmt.Errorf("%s namespace: %w", name, err)
		}
		if err := unix.Fstat(k.child.namespaces[i], &cell); err != nil {
			return fmt.Errorf("%s namespace: %w", name, err)
		}
		if own.Ino != cell.Ino || own.Dev != cell.Dev {
			return fmt.Errorf("it is not in the %s namespace of the cell", name)
		}
	}
	return nil
}

// directories checks that its root is the cell's, and that its working directory is in
// the cell: a directory that was opened before it has joined could be either.
func (k *copyCheck) directories() error {
	root, err := placeOf(k.file("root"))
	if err != nil {
		return err
	}
	cell, err := placeOf(fmt.Sprintf("/proc/%d/root", k.child.pid))
	if err != nil {
		return err
	}
	if root != cell {
		return errors.New("its root is not the cell's")
	}
	work, err := placeOf(k.file("cwd"))
	if err != nil {
		return err
	}
	mounts, err := readProc(k.file("mountinfo"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if id, _, _ := strings.Cut(line, " "); id == strconv.FormatUint(work.mount, 10) {
			return nil
		}
	}
	return errors.New("its working directory is not in the cell")
}

// place is a file on a mount.
type place struct {
	fileID
	mount uint64
}

func placeOf(path string) (place, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_MNT_ID, &st); err != nil {
		return place{}, fmt.Errorf("%s: %w", path, err)
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return place{}, fmt.Errorf("%s: this kernel does not show mounts: %w", path, unix.EOPNOTSUPP)
	}
	return place{fileID{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}, st.Mnt_id}, nil
}

// mappings checks that it shares no memory to write to, or that it could make
// writable: a file that was opened for writing. One that was opened for reading, such as
// a cache of the C library, cannot become so.
func (k *copyCheck) mappings() error {
	data, err := readProc(k.file("maps"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 2 || len(f[1]) != 4 {
			return fmt.Errorf("mapping %.80q", line)
		}
		if f[1][3] != 's' {
			continue
		}
		// The kernel shows how the file was opened as the mode of a link.
		file, err := os.Lstat(k.file("map_files/" + f[0]))
		if err != nil {
			return fmt.Errorf("whether it shares memory is unknown: %w", err)
		}
		if f[1][1] == 'w' || file.Mode()&0o200 != 0 {
			return fmt.Errorf("it shares memory: %.200s", strings.Join(strings.Fields(line), " "))
		}
	}
	return nil
}

// descriptors checks that it has only those that it was given.
func (k *copyCheck) descriptors() error {
	list, err := os.ReadDir(k.file("fd"))
	if err != nil {
		return err
	}
	for _, e := range list {
		var st unix.Stat_t
		if err := unix.Stat(k.file("fd/"+e.Name()), &st); err != nil {
			return fmt.Errorf("descriptor %s: %w", e.Name(), err)
		}
		if !slices.Contains(k.allowed, fileID{st.Dev, st.Ino}) && !isNull(&st) {
			what, _ := os.Readlink(k.file("fd/" + e.Name()))
			return fmt.Errorf("it holds descriptor %s, %.100q", e.Name(), what)
		}
	}
	return nil
}

// isNull reports whether a file is the null device.
func isNull(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3)
}

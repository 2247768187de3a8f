package cgroup

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// periodMicros is the time in which a cell may use its share of the processors.
const periodMicros = 100_000

// Group is the control group of one cell: one directory in each hierarchy that
// it needs. Its methods may be called by many goroutines.
//
// Lifecycle: Create, Add the first process before it runs anything, any number
// of Freeze, Thaw, Usage and one Watch, then Kill if processes may be left, then
// Remove. A group whose owner dies is found by Host.sweep.
type Group struct {
	id   string
	dirs []*dir
	// by is where each asked control is.
	by map[Control]*dir
	// v2 is the group of version 2, or nil.
	v2     *dir
	limits Limits
}

// Create makes the group of one cell, with its limits set and no process in it.
// It makes all of it or nothing. A limit that this host cannot set is an
// *UnsupportedError; every other error names the file.
func (h *Host) Create(id string, l Limits) (*Group, error) {
	if err := checkID(id); err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	need := l.neededControls()
	for _, c := range need {
		if s := h.Can(c); s.Status == Missing {
			return nil, &UnsupportedError{Control: c, Reason: s.Reason, Remedy: s.Remedy}
		}
	}
	// Freezing and killing need no controller: they come for free.
	need = append(need, Freezer)
	g := &Group{id: id, by: map[Control]*dir{}, limits: l}
	if err := h.fill(g, need); err != nil {
		return nil, errors.Join(err, g.Remove())
	}
	return g, nil
}

// fill makes the directories of g and sets its limits.
func (h *Host) fill(g *Group, need []Control) error {
	for _, p := range h.places {
		if !p.serves(need) {
			continue
		}
		if err := h.makeIn(g, p, need); err != nil {
			return err
		}
	}
	return g.setLimits()
}

func (p hierarchy) serves(need []Control) bool {
	return slices.ContainsFunc(p.controls, func(c Control) bool { return slices.Contains(need, c) })
}

// makeIn makes the directory of g in one hierarchy.
func (h *Host) makeIn(g *Group, p hierarchy, need []Control) error {
	if err := p.pass(need); err != nil {
		return err
	}
	d, err := h.makeDir(p.base+"/"+prefix+g.id, p.v2)
	if err != nil {
		return err
	}
	g.dirs = append(g.dirs, d)
	if p.v2 {
		g.v2 = d
	}
	for _, c := range p.controls {
		if slices.Contains(need, c) {
			g.by[c] = d
		}
	}
	return nil
}

// pass has a group of version 2 pass the needed controllers on to its own.
func (p hierarchy) pass(need []Control) error {
	for _, c := range p.enable {
		if !slices.Contains(need, c) {
			continue
		}
		base, err := openDir(p.base, true, 0)
		if err != nil {
			return err
		}
		err = base.write("cgroup.subtree_control", "+"+string(c))
		_ = base.file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// makeDir makes a group and locks it. Between the two a sweep of another
// process may take it for a leftover, so it looks again afterwards.
func (h *Host) makeDir(name string, v2 bool) (*dir, error) {
	for try := 0; ; try++ {
		err := h.mkdir(name)
		if errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("cgroup: %s: %w", name, errExists)
		}
		if err != nil {
			return nil, fmt.Errorf("cgroup: make %s: %w", name, err)
		}
		d, err := openDir(name, v2, unix.LOCK_SH)
		if err == nil && exists(name) {
			return d, nil
		}
		if err == nil {
			_ = d.file.Close()
			err = fmt.Errorf("cgroup: %s was removed by another process", name)
		}
		if try == 2 {
			_ = unix.Rmdir(name)
			return nil, err
		}
		if err := unix.Rmdir(name); err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, fmt.Errorf("cgroup: remove %s: %w", name, err)
		}
	}
}

func (g *Group) setLimits() error {
	if d := g.by[Memory]; d != nil {
		if err := setMemory(d, g.limits.Memory); err != nil {
			return err
		}
	}
	if d := g.by[CPU]; d != nil {
		if err := setCPU(d, g.limits.CPUsMilli); err != nil {
			return err
		}
	}
	if d := g.by[PIDs]; d != nil {
		return d.writeInt("pids.max", g.limits.PIDs)
	}
	return nil
}

func setMemory(d *dir, n int64) error {
	if !d.v2 {
		if err := d.writeInt("memory.limit_in_bytes", n); err != nil {
			return err
		}
		// It may not be below the limit without swap, hence the order.
		return optional(d, "memory.memsw.limit_in_bytes", strconv.FormatInt(n, 10))
	}
	if err := d.writeInt("memory.max", n); err != nil {
		return err
	}
	if err := optional(d, "memory.swap.max", "0"); err != nil {
		return err
	}
	// A cell that has lost some of its processes is in no state that anyone
	// asked for.
	return optional(d, "memory.oom.group", "1")
}

// optional writes a file that some kernels do not have.
func optional(d *dir, name, value string) error {
	err := d.write(name, value)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func setCPU(d *dir, milli int64) error {
	quota := strconv.FormatInt(milli*periodMicros/1000, 10)
	period := strconv.Itoa(periodMicros)
	if d.v2 {
		if err := d.write("cpu.max", quota+" "+period); err != nil {
			return err
		}
		return d.keep(CPU)
	}
	if err := d.write("cpu.cfs_period_us", period); err != nil {
		return err
	}
	return d.write("cpu.cfs_quota_us", quota)
}

// keep holds a controller in this group: the kernel takes none away from a group that
// passes it on to its own. A service manager tries to, when none of its units needs the
// controller, and the limit would go with it. The kernel allows keep for processors and
// numbers of processes only; systemd has memory on for all units unless told otherwise.
func (d *dir) keep(c Control) error { return d.write("cgroup.subtree_control", "+"+string(c)) }

// Add moves a process, with all its threads, into the group. What it started
// before stays where it is, so add it before it runs anything.
func (g *Group) Add(pid int) error {
	if pid <= 0 {
		// 0 would be the caller itself.
		return fmt.Errorf("cgroup: add process %d: %w", pid, unix.EINVAL)
	}
	for _, d := range g.dirs {
		if err := d.write("cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// Touch moves a process that is in the group into it once more. Nothing changes, but
// the next moves of any process are quick for some milliseconds.
func (g *Group) Touch(pid int) error {
	if pid <= 0 || len(g.dirs) == 0 {
		return fmt.Errorf("cgroup: touch process %d: %w", pid, unix.EINVAL)
	}
	return g.dirs[0].write("cgroup.procs", strconv.Itoa(pid))
}

// Open returns the directory of version 2 for CLONE_INTO_CGROUP, or nil if the
// group has none. The caller closes it. A group of both versions still needs
// Add.
func (g *Group) Open() (*os.File, error) {
	if g.v2 == nil {
		return nil, nil //nolint:nilnil // nil says that there is none, as documented
	}
	fd := -1
	err := g.v2.control(func(at int) (err error) {
		fd, err = unix.FcntlInt(uintptr(at), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cgroup: open %s: %w", g.v2.path, err)
	}
	return os.NewFile(uintptr(fd), g.v2.path), nil
}

// ID is the id that Create was given.
func (g *Group) ID() string { return g.id }

// Version is "v1", "v2" or "hybrid", for a receipt; "none" for a group without
// any directory, on a host that has nothing.
func (g *Group) Version() string {
	v1 := slices.ContainsFunc(g.dirs, func(d *dir) bool { return !d.v2 })
	return versionName(v1, g.v2 != nil)
}

// Dirs lists the group's directories, for a record from which
// Host.RemoveLeftover can clean up after the owner's death.
func (g *Group) Dirs() []string {
	list := make([]string, len(g.dirs))
	for i, d := range g.dirs {
		list[i] = d.path
	}
	return list
}

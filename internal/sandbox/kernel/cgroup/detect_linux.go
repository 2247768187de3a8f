package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Options change where Detect looks. The zero value is the real host.
type Options struct {
	// Proc is the caller's directory in the process file system.
	// Default: /proc/self.
	Proc string
	// Root stands before the path of every mounted hierarchy, for trees of plain
	// files.
	Root string
	// Without takes controls away.
	Without []Control
	// WithoutV1 and WithoutV2 take a whole version away.
	WithoutV1, WithoutV2 bool
}

// hierarchy is one place where groups can be made.
type hierarchy struct {
	v2 bool
	// base is the directory that gets our groups.
	base string
	// controls are ours in this hierarchy.
	controls []Control
	// enable are those of them that base does not yet pass on to its groups.
	enable []Control
}

// Host is what this process can do with control groups. It does not change
// after Detect and may be used by many goroutines.
type Host struct {
	places  []hierarchy
	support []Support
	// mkdir makes a group; in a tree of plain files it stays empty.
	mkdir func(dir string) error
}

// detector collects what Detect reads.
type detector struct {
	opt     Options
	members []member
	mounts  []mountPoint
	host    *Host
}

// Detect finds the hierarchies that this process can use. It changes nothing.
// An error means that the kernel's own description could not be read or
// understood; a host without usable groups is no error.
func Detect(opt Options) (*Host, error) {
	if opt.Proc == "" {
		opt.Proc = "/proc/self"
	}
	d := &detector{opt: opt, host: &Host{mkdir: mkdir}}
	text, err := os.ReadFile(opt.Proc + "/cgroup")
	if errors.Is(err, os.ErrNotExist) {
		text, err = nil, nil // a kernel without control groups
	}
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	if d.members, err = parseMembers(string(text)); err != nil {
		return nil, fmt.Errorf("cgroup: %s/cgroup: %w", opt.Proc, err)
	}
	if text, err = os.ReadFile(opt.Proc + "/mountinfo"); err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	if d.mounts, err = parseMounts(string(text)); err != nil {
		return nil, fmt.Errorf("cgroup: %s/mountinfo: %w", opt.Proc, err)
	}
	for i := range d.mounts {
		d.mounts[i].dir = opt.Root + d.mounts[i].dir
	}
	d.decide()
	return d.host, nil
}

func mkdir(dir string) error { return unix.Mkdir(dir, 0o755) }

// decide settles every control: version 1 where its controller is mounted
// there, since a controller is never in both, else version 2.
func (d *detector) decide() {
	var wanted []Control
	found := map[Control]Support{}
	for _, c := range []Control{Memory, CPU, PIDs} {
		s, taken := d.tryV1(c)
		if !taken {
			wanted = append(wanted, c)
			continue
		}
		found[c] = s
	}
	for c, s := range d.tryV2(wanted) {
		found[c] = s
	}
	if found[Freezer].Status != Works && !slices.Contains(d.opt.Without, Freezer) {
		// If neither works, the way to version 2 is the one worth telling.
		s, taken := d.tryV1(Freezer)
		if taken && (s.Status == Works || d.ownV2() < 0) {
			found[Freezer] = s
		}
	}
	for _, c := range Controls() {
		d.host.support = append(d.host.support, found[c])
	}
}

// ownV2 is the index of this process's place in version 2, or -1.
func (d *detector) ownV2() int {
	if d.opt.WithoutV2 {
		return -1
	}
	return slices.IndexFunc(d.members, func(m member) bool { return len(m.controllers) == 0 })
}

// tryV1 says whether c is a controller of version 1, and what can be done with
// it.
func (d *detector) tryV1(c Control) (Support, bool) {
	if slices.Contains(d.opt.Without, c) {
		return missing(c, "taken away by an option", ""), true
	}
	if d.opt.WithoutV1 {
		return Support{}, false
	}
	at := slices.IndexFunc(d.members, func(m member) bool { return slices.Contains(m.controllers, string(c)) })
	if at < 0 {
		return Support{}, false
	}
	own, why := d.locate(false, string(c), d.members[at].path)
	if own == "" {
		return missing(c, why, "mount the hierarchy writable where this process can see it"), true
	}
	if err := writable(own); err != nil {
		return missing(c, notWritable(own, err), "run as root, or have root give a group of the "+string(c)+" hierarchy to this user and start in it"), true
	}
	d.host.add(hierarchy{base: own, controls: []Control{c}})
	s := Support{Control: c, Status: Works, Version: "v1"}
	if c == Memory && !exists(own+"/memory.memsw.limit_in_bytes") && d.swaps() {
		s.Status = Degraded
		s.Reason = "the kernel does not count swap, so that a cell can pass its limit there"
		s.Remedy = "boot with swapaccount=1, or switch swap off"
	}
	return s, true
}

// add puts a control into its hierarchy; cpu and others may share one.
func (h *Host) add(n hierarchy) {
	for i := range h.places {
		if h.places[i].base == n.base && h.places[i].v2 == n.v2 {
			h.places[i].controls = append(h.places[i].controls, n.controls...)
			return
		}
	}
	h.places = append(h.places, n)
}

// locate finds the directory of group p, by a mount that this process can
// write to, or says why there is none.
func (d *detector) locate(v2 bool, controller, p string) (dir, why string) {
	why = "its hierarchy is not mounted"
	for _, m := range d.mounts {
		if m.v2 != v2 || !v2 && !slices.Contains(m.options, controller) {
			continue
		}
		dir, ok := m.groupDir(p)
		switch {
		case !ok:
			why = "this process's own group is outside what is mounted at " + m.dir
		case m.readOnly:
			why = m.dir + " is mounted read-only"
		case !exists(dir + "/cgroup.procs"):
			why = dir + " is hidden by another mount"
		default:
			return dir, ""
		}
	}
	return "", why
}

func (d *detector) swaps() bool {
	text, err := os.ReadFile(path.Dir(d.opt.Proc) + "/swaps")
	return err != nil || strings.Count(string(text), "\n") > 1
}

// Support lists what this host can do, one entry for each of Controls.
func (h *Host) Support() []Support { return slices.Clone(h.support) }

// Can returns the entry of one control.
func (h *Host) Can(c Control) Support {
	for _, s := range h.support {
		if s.Control == c {
			return s
		}
	}
	return missing(c, "unknown control", "")
}

// Version is "v1", "v2", "hybrid" when cells get groups of both, or "none".
func (h *Host) Version() string {
	v1 := slices.ContainsFunc(h.places, func(p hierarchy) bool { return !p.v2 })
	v2 := slices.ContainsFunc(h.places, func(p hierarchy) bool { return p.v2 })
	return versionName(v1, v2)
}

func versionName(v1, v2 bool) string {
	switch {
	case v1 && v2:
		return "hybrid"
	case v1:
		return "v1"
	case v2:
		return "v2"
	}
	return "none"
}

func missing(c Control, reason, remedy string) Support {
	return Support{Control: c, Status: Missing, Reason: reason, Remedy: remedy}
}

// writable reports whether this process may make groups in dir and move
// processes from dir into them.
func writable(dir string) error {
	for _, p := range []string{dir, dir + "/cgroup.procs"} {
		if err := unix.Faccessat(unix.AT_FDCWD, p, unix.W_OK, unix.AT_EACCESS); err != nil {
			return err
		}
	}
	return nil
}

func notWritable(dir string, err error) string {
	return fmt.Sprintf("%s: %v for user %d", dir, err, os.Geteuid())
}

func exists(p string) bool {
	var st unix.Stat_t
	return unix.Stat(p, &st) == nil
}

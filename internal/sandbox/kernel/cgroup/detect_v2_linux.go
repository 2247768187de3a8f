package cgroup

import (
	"os"
	"path"
	"slices"
	"strings"
)

const delegateRemedy = "run as root, or start under `systemd-run --user --scope -p Delegate=yes`"

// tryV2 looks for the nearest group, from this process's own upwards, whose
// groups can have the wanted controllers. Version 2 does not let a group have
// both processes and groups with controllers, so a process's own group is
// rarely the one; the group above it is, and its limits still hold for the cell.
func (d *detector) tryV2(wanted []Control) map[Control]Support {
	found := map[Control]Support{}
	fail := func(why, remedy string) map[Control]Support {
		for _, c := range append(wanted, Freezer) {
			found[c] = missing(c, why, remedy)
		}
		if slices.Contains(d.opt.Without, Freezer) {
			found[Freezer] = missing(Freezer, "taken away by an option", "")
		}
		return found
	}
	at := d.ownV2()
	if at < 0 {
		return fail("the kernel offers no such controller here", "use a kernel and a container with control groups")
	}
	own, why := d.locate(true, "", d.members[at].path)
	if own == "" {
		return fail("version 2: "+why, "mount the hierarchy writable where this process can see it")
	}
	// A group that passes the controllers on already comes first: a service
	// manager may take back what others switch on in its groups.
	best, ok := d.nearestGroup(own, wanted, false)
	if !ok {
		return fail(notWritable(own, writable(own)), delegateRemedy)
	}
	if other, _ := d.nearestGroup(own, wanted, true); len(other.controls) > len(best.controls) {
		best = other
	}
	for _, c := range wanted {
		if slices.Contains(best.controls, c) {
			found[c] = Support{Control: c, Status: Works, Version: "v2"}
		} else {
			found[c] = missing(c, whyMissing(best.base, c), delegateRemedy)
		}
	}
	switch {
	case slices.Contains(d.opt.Without, Freezer):
		found[Freezer] = missing(Freezer, "taken away by an option", "")
	default:
		// Every group but the root can be frozen; it needs no controller.
		best.controls = append(best.controls, Freezer)
		found[Freezer] = Support{Control: Freezer, Status: Works, Version: "v2"}
	}
	d.host.add(best)
	return found
}

// nearestGroup walks up from own to the mounted root and takes the first group with
// the most controllers; with enable also such as it would have to switch on.
func (d *detector) nearestGroup(own string, wanted []Control, enable bool) (hierarchy, bool) {
	top := own
	for _, m := range d.mounts {
		if m.v2 && (own == m.dir || strings.HasPrefix(own, m.dir+"/")) {
			top = m.dir
		}
	}
	var best hierarchy
	for dir := own; ; dir = path.Dir(dir) {
		// What lies above a group that is not ours is not ours either, but a
		// group in the middle may have been given away without its parent.
		if writable(dir) == nil {
			h := offer(dir, wanted, enable)
			if best.base == "" || len(h.controls) > len(best.controls) {
				best = h
			}
		}
		if dir == top || dir == "/" || len(best.controls) == len(wanted) && best.base != "" {
			return best, best.base != ""
		}
	}
}

// offer returns which of the wanted controllers groups in dir can have.
func offer(dir string, wanted []Control, enable bool) hierarchy {
	h := hierarchy{v2: true, base: dir}
	have := words(dir + "/cgroup.controllers")
	on := words(dir + "/cgroup.subtree_control")
	for _, c := range wanted {
		switch {
		case slices.Contains(on, string(c)):
			h.controls = append(h.controls, c)
		case enable && slices.Contains(have, string(c)) && mayEnable(dir):
			h.controls = append(h.controls, c)
			h.enable = append(h.enable, c)
		}
	}
	return h
}

// mayEnable reports whether controllers can be passed on to the groups in dir: only
// the root may then have processes besides its groups.
func mayEnable(dir string) bool {
	if !exists(dir + "/cgroup.type") {
		return true // the root of the hierarchy
	}
	text, err := os.ReadFile(dir + "/cgroup.procs")
	return err == nil && len(text) == 0
}

// whyMissing returns why groups in dir do not have controller c.
func whyMissing(dir string, c Control) string {
	switch {
	case !slices.Contains(words(dir+"/cgroup.controllers"), string(c)):
		return dir + "/cgroup.controllers does not list " + string(c)
	case !mayEnable(dir):
		return dir + "/cgroup.subtree_control does not list " + string(c) + ", and cannot while processes are in that group"
	}
	return dir + "/cgroup.subtree_control does not list " + string(c)
}

func words(file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sweep removes the groups that dead owners left where this host makes groups,
// and kills what is still in them. alive says which ids to leave alone. Groups
// of other homes are safe: a living owner holds a lock on them.
func (h *Host) sweep(alive func(id string) bool) error {
	var errs []error
	// The freezer is the last: what it holds cannot die for the others.
	for _, p := range slices.Backward(h.places) {
		entries, err := os.ReadDir(p.base)
		if err != nil {
			errs = append(errs, fmt.Errorf("cgroup: %w", err))
			continue
		}
		for _, e := range entries {
			id, ok := strings.CutPrefix(e.Name(), prefix)
			if !ok || !e.IsDir() || checkID(id) != nil || alive(id) {
				continue
			}
			if err := sweepDir(p.base+"/"+e.Name(), p.v2); !errors.Is(err, errHeld) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// unlockTimeout is how long a dead process may take to let its locks go: the kernel
// closes one descriptor after the other.
const unlockTimeout = 2 * time.Second

// SweepDead removes the groups of one id, whose owner is known to be dead. Should
// it live all the same, they stay.
func (h *Host) SweepDead(id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	var errs []error
	// A lock that is let go wakes only who waits for it without an end.
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	until := time.Now().Add(unlockTimeout)
	for _, p := range slices.Backward(h.places) {
		err := sweepDir(p.base+"/"+prefix+id, p.v2)
		for errors.Is(err, errHeld) && time.Now().Before(until) {
			<-look.C
			err = sweepDir(p.base+"/"+prefix+id, p.v2)
		}
		if !errors.Is(err, errHeld) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// errHeld means that the owner of a group holds its lock.
var errHeld = errors.New("cgroup: its owner is still running")

// sweepDir removes one leftover, unless its owner lives.
func sweepDir(name string, v2 bool) error {
	d, err := openDir(name, v2, unix.LOCK_EX)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return errHeld
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	}
	g := &Group{dirs: []*dir{d}, by: map[Control]*dir{}}
	switch {
	case v2:
		g.v2, g.by[Freezer] = d, d
	case d.has("freezer.state"):
		g.by[Freezer] = d
	}
	return errors.Join(g.Kill(), g.Remove())
}

package native

import (
	"context"
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/cgroup"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

var limitNames = map[cgroup.Kind]string{cgroup.OOMKill: "memory", cgroup.PIDsFull: "pids"}

// limitedGroup is a cell's control group.
type limitedGroup struct {
	host     *cgroup.Host // nil if no group was needed
	group    *cgroup.Group
	stop     func() // ends the watch
	degraded []string
	summary  string
	// processes is the limit that a resource limit holds in place of a group.
	processes int64
}

// limit makes the control group of a cell. A limit that this host cannot set is
// an error, or with AllowDegraded a line about what is missing.
func (n *Driver) limit(s *driver.Spec) (*limitedGroup, error) {
	l := &limitedGroup{summary: s.Limits.String()}
	asked := groupLimits(s.Limits)
	if asked == (cgroup.Limits{}) && !s.Freezable {
		return l, nil
	}
	host, err := n.cgroups()
	if err != nil {
		return nil, err
	}
	l.host = host
	if l.degraded, err = weaken(host, &asked, s.Guard.AllowDegraded); err != nil {
		return nil, err
	}
	l.summary = s.Limits.Achieved(l.degraded)
	if asked.PIDs == 0 {
		l.processes = s.Limits.PIDs
	}
	if l.group, err = host.Create(s.ID, asked); err != nil {
		return nil, err
	}
	if len(l.group.Dirs()) > 0 {
		l.summary += " (cgroup " + l.group.Version() + ")"
	}
	return l, nil
}

// weaken drops the limits that this host cannot set, if that is allowed, and
// says so.
func weaken(host *cgroup.Host, asked *cgroup.Limits, allowed bool) (degraded []string, err error) {
	for _, c := range []struct {
		control cgroup.Control
		value   *int64
	}{{cgroup.Memory, &asked.Memory}, {cgroup.CPU, &asked.CPUsMilli}, {cgroup.PIDs, &asked.PIDs}} {
		if *c.value == 0 {
			continue
		}
		can := host.Can(c.control)
		if can.Status == cgroup.Works {
			continue
		}
		if !allowed {
			return nil, &driver.UnenforceableError{Control: "limit " + string(c.control), Reason: can.Reason, Remedy: can.Remedy}
		}
		line := driver.NotEnforced(string(c.control), can.Reason)
		if c.control == cgroup.PIDs {
			line = fmt.Sprintf("limit %s is held by a resource limit only: %s", c.control, can.Reason)
		}
		degraded = append(degraded, line)
		*c.value = 0
	}
	return degraded, nil
}

// watch reports limits that are met, until unlimit.
func (l *limitedGroup) watch(hit func(driver.LimitHit)) {
	if l.group == nil || hit == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// What cannot be watched is counted in the end all the same.
		_ = l.group.Watch(ctx, func(e cgroup.Event) { hit(driver.LimitHit{Limit: limitNames[e.Kind], Count: e.Total}) })
	}()
	l.stop = func() { cancel(); <-done }
}

// usage reads the counters, before the group is removed.
func (l *limitedGroup) usage() driver.Usage {
	if l.group != nil {
		if u, err := l.group.Usage(); err == nil {
			return driver.Usage{MemoryPeak: u.MemoryPeak, CPUMicros: u.CPUMicros, OOMKills: u.OOMKills, PIDsHits: u.PIDsHits}
		}
	}
	return driver.Usage{MemoryPeak: cgroup.Unknown, CPUMicros: cgroup.Unknown, OOMKills: cgroup.Unknown, PIDsHits: cgroup.Unknown}
}

// cgroups looks at the host's control groups once.
func (n *Driver) cgroups() (*cgroup.Host, error) {
	n.groups.once.Do(func() { n.groups.host, n.groups.err = cgroup.Detect(n.opt.Cgroups) })
	return n.groups.host, n.groups.err
}

// unlimit removes the group once the cell's processes are gone.
func (l *limitedGroup) unlimit() error {
	if l.group == nil {
		return nil
	}
	if l.stop != nil {
		l.stop()
	}
	return errors.Join(l.group.Kill(), l.group.Remove())
}
